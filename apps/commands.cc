#include "apps/commands.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "apps/cli/environment_flags.h"
#include "apps/cli/job_flags.h"
#include "base/exit_codes.h"
#include "base/nearest_name.h"
#include "base/version.h"

namespace soapstone::apps {
namespace {

constexpr char kExamples[] =
    "Examples:\n  soapstone train --config=examples/digits-lenet5.textproto\n"
    "  soapstone predict --model_file=runs/quickstart/model.safetensors --images=FOLDER\n"
    "  soapstone simulate --workers=32 --policy=ssp:s=4\n"
    "  soapstone models\n"
    "  soapstone profile --model=lenet5\n"
    "  soapstone plan --model=alexnet --machine=examples/machines/p100_4x4.machine.textproto\n"
    "  soapstone data mnist\n"
    "  soapstone keygen --out=keys\n"
    "  soapstone policies\n"
    "`soapstone train --help` lists the flags of train.";

// It is not listed: people do not call it.
const CLI::App* AddAgent(CLI::App* app) {
  return app
      ->add_subcommand("agent", "What `soapstone train --hosts` starts on each host, over ssh")
      ->group("")
      ->footer("It is told what to do on standard input.");
}

// No command, or one that there is not. Then it has been said.
bool IsUnknown(int argc, const char* const* argv, CLI::App* app) {
  if (argc > 1 && argv[1][0] == '-') return false;
  const auto called = [&](CLI::App* command) { return command->check_name(argv[1]); };
  if (argc > 1 && !app->get_subcommands(called).empty()) return false;
  std::vector<std::string> names;
  for (const CLI::App* command : app->get_subcommands({})) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  const std::string all = absl::StrJoin(names, ", ");
  if (argc < 2) {
    std::cerr << "soapstone: a command is needed: " << all << " (--help says what each does)\n";
  } else {
    std::cerr << "soapstone: no command \"" << argv[1] << "\"" << DidYouMean(argv[1], names) << " ("
              << all << ")\n";
  }
  return true;
}

// What is missing of flags that are not complete has been said.
template <typename Flags>
std::variant<Command, EndNow> IfComplete(bool complete, Flags* flags) {
  if (!complete) return EndNow{kExitConfig};
  return Command(std::move(*flags));
}

}  // namespace

std::variant<Command, EndNow> ParseCommand(int argc, const char* const* argv) {
  NodeFlags train;
  NodeCommand node;
  SimulateFlags simulate;
  ExperimentFlags experiment;
  ReplayFlags replay;
  ModelsFlags models;
  ProfileFlags profile;
  PlanFlags plan;
  DataFlags data;
  TopFlags top;
  TimelineFlags timeline;
  CheckpointFlags checkpoint;
  KeygenFlags keygen;
  PredictFlags predict;
  EvaluateFlags evaluate;
  CLI::App app("Soapstone: parameter servers with stale-synchronous consistency.", "soapstone");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1)->footer(kExamples);
  CLI::App* train_app = AddTrain(&app, &train);
  CLI::App* node_app = AddNode(&app, &node.flags);
  const CLI::App* predict_app = AddPredict(&app, &predict);
  const CLI::App* evaluate_app = AddEvaluate(&app, &evaluate);
  AddSimulate(&app, &simulate);
  const CLI::App* experiment_app = AddExperiment(&app, &experiment);
  const CLI::App* replay_app = AddReplay(&app, &replay);
  const CLI::App* models_app = AddModels(&app, &models);
  const CLI::App* profile_app = AddProfile(&app, &profile);
  const CLI::App* plan_app = AddPlan(&app, &plan);
  const CLI::App* data_app = AddData(&app, &data);
  const CLI::App* top_app = AddTop(&app, &top);
  const CLI::App* timeline_app = AddTimeline(&app, &timeline);
  const CLI::App* checkpoint_app = AddCheckpoint(&app, &checkpoint);
  const CLI::App* keygen_app = AddKeygen(&app, &keygen);
  const CLI::App* agent_app = AddAgent(&app);
  const CLI::App* policies_app = app.add_subcommand("policies", "List the consistency policies");
  if (IsUnknown(argc, argv, &app)) return EndNow{kExitConfig};
  // Of the commands that are not called nothing is set.
  const std::string_view called = argc > 1 ? argv[1] : "";
  if (called == "train") TakeFromEnvironment(train_app);
  if (called == "node") TakeFromEnvironment(node_app);
  const auto parsed = Parse(&app, argc, argv);
  if (const EndNow* end = std::get_if<EndNow>(&parsed)) return *end;
  if (train_app->parsed()) return Command(std::move(train));
  if (node_app->parsed()) return Command(std::move(node));
  if (predict_app->parsed()) return IfComplete(PredictIsComplete(predict), &predict);
  if (evaluate_app->parsed()) return IfComplete(EvaluateIsComplete(evaluate), &evaluate);
  if (experiment_app->parsed()) return Command(std::move(experiment));
  if (replay_app->parsed()) return Command(std::move(replay));
  if (models_app->parsed()) return Command(std::move(models));
  if (profile_app->parsed()) return IfComplete(ProfileIsComplete(profile), &profile);
  if (plan_app->parsed()) return IfComplete(PlanIsComplete(plan), &plan);
  if (data_app->parsed()) return Command(std::move(data));
  if (top_app->parsed()) return Command(std::move(top));
  if (timeline_app->parsed()) return Command(std::move(timeline));
  if (checkpoint_app->parsed()) return Command(std::move(checkpoint));
  if (keygen_app->parsed()) return Command(std::move(keygen));
  if (agent_app->parsed()) return Command(AgentCommand{});
  if (policies_app->parsed()) return Command(PoliciesCommand{});
  return Command(std::move(simulate));
}

}  // namespace soapstone::apps
