// soapstone: the command for people: train on this machine, be one process of a job, predict with
// what was trained, simulate a cluster, compare policies, list them, the models and public data,
// profile a model, plan its parallelism, look at checkpoints, make keys.
#include <iostream>
#include <string_view>

#include "apps/checkpoint_command/checkpoint_command.h"
#include "apps/cli/job_source.h"
#include "apps/cli/launcher.h"
#include "apps/cli/models_command.h"
#include "apps/commands.h"
#include "apps/daemon/node_command.h"
#include "apps/data/data_command.h"
#include "apps/experiment/experiment_command.h"
#include "apps/experiment/replay_command.h"
#include "apps/experiment/simulate_command.h"
#include "apps/hosts/agent_command.h"
#include "apps/hosts/train_on_hosts.h"
#include "apps/keygen/keygen_command.h"
#include "apps/loop/standard_descriptors.h"
#include "apps/plan/auto_strategy.h"
#include "apps/plan/measured_inputs.h"
#include "apps/plan/plan_command.h"
#include "apps/plan/running_replanner.h"
#include "apps/predict/evaluate_command.h"
#include "apps/predict/predict_command.h"
#include "apps/profile/profile_command.h"
#include "apps/timeline/timeline_command.h"
#include "apps/top/top_command.h"
#include "base/exit_codes.h"
#include "consistency/catalogue.h"

namespace soapstone::apps {
namespace {

int ListPolicies() {
  for (const consistency::PolicyEntry& policy : consistency::PolicyCatalogue()) {
    std::cout << policy.usage << "\n  rule        " << policy.rule << "\n  formula     "
              << policy.formula << "\n  bytes/step  " << policy.bytes_per_step << "\n  round trips "
              << policy.round_trips << " per step\n  checker     " << policy.checker << "\n";
    for (const std::string& example : policy.Examples()) {
      std::cout << "  " << example << ": "
                << consistency::ParsePolicy(example)->guarantee.ToString() << "\n";
    }
    std::cout << "\n";
  }
  return kExitOk;
}

int TrainHere(const NodeFlags& flags) {
  MeasuredInputs inputs;
  RunningReplanner replanner(&inputs, flags.machine_path);
  return Train(flags, nullptr,
               {.finder =
                    [&](const NodeFlags& of, wire::JobConfig* config) {
                      return FindStrategy(of, of.replan ? &inputs : nullptr, config);
                    },
                .replanner = &replanner});
}

int Main(int argc, char** argv) {
  const auto parsed = ParseCommand(argc, argv);
  if (const EndNow* end = std::get_if<EndNow>(&parsed)) return end->code;
  const Command* command = std::get_if<Command>(&parsed);
  if (const auto* train = std::get_if<NodeFlags>(command)) {
    return train->hosts_path.empty() ? TrainHere(*train) : TrainOnHosts(*train);
  }
  if (std::holds_alternative<AgentCommand>(*command)) return RunAgent();
  if (const auto* node = std::get_if<NodeCommand>(command)) return RunNodeCommand(node->flags);
  if (const auto* simulate = std::get_if<SimulateFlags>(command)) return Simulate(*simulate);
  if (const auto* experiment = std::get_if<ExperimentFlags>(command)) {
    return RunExperiment(*experiment);
  }
  if (const auto* replay = std::get_if<ReplayFlags>(command)) return ReplayRecording(*replay);
  if (const auto* models = std::get_if<ModelsFlags>(command)) return ListModels(*models);
  if (const auto* profile = std::get_if<ProfileFlags>(command)) return Profile(*profile);
  if (const auto* plan = std::get_if<PlanFlags>(command)) return Plan(*plan);
  if (const auto* data = std::get_if<DataFlags>(command)) return Data(*data);
  if (const auto* top = std::get_if<TopFlags>(command)) return Top(*top);
  if (const auto* timeline = std::get_if<TimelineFlags>(command)) return DrawJobTimeline(*timeline);
  if (const auto* of = std::get_if<CheckpointFlags>(command)) return TellOfCheckpoints(*of);
  if (const auto* keygen = std::get_if<KeygenFlags>(command)) return Keygen(*keygen);
  if (const auto* predict = std::get_if<PredictFlags>(command)) return Predict(*predict);
  if (const auto* evaluate = std::get_if<EvaluateFlags>(command)) return Evaluate(*evaluate);
  return ListPolicies();
}

}  // namespace
}  // namespace soapstone::apps

int main(int argc, char** argv) {
  using soapstone::apps::WhenClosed;
  const bool daemon = argc > 1 && std::string_view(argv[1]) == "node";
  soapstone::apps::HoldStandardDescriptors(daemon ? WhenClosed::kSilent : WhenClosed::kError);
  return soapstone::apps::CodeOfOutput("soapstone", soapstone::apps::Main(argc, argv));
}
