#include "experiment/cosim/planned_times.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/graph/section.h"
#include "scheduler/planner/simulator/simulator.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"
#include "strategy/strategy_text.h"
#include "strategy/team_plan.h"
#include "wire/membership/teams.h"

namespace soapstone::experiment {
namespace {

using models::SectionStep;

absl::Status CheckMachine(const cluster::TrainingJob& job, const planner::Machine& machine) {
  const auto error = [&](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat("machine ", machine.name(), ": ", parts...));
  };
  if (machine.devices().size() < job.workers) {
    return error(machine.devices().size(), " devices, and the job has ", job.workers,
                 " workers: each is one");
  }
  if (job.team->plan.owned) return absl::OkStatus();
  const uint32_t servers = job.layout->shard_count() / job.team->sets();
  if (machine.servers().size() == servers) return absl::OkStatus();
  return error(machine.servers().size(), " servers, and the job has ", servers,
               ": take --servers=", machine.servers().size());
}

// Of the strategy as it is for batches of one size.
class CostsOfSize {
 public:
  CostsOfSize(const planner::OpGraph* graph, const planner::Strategy* strategy,
              const planner::CostModel* costs)
      : graph_(*graph), strategy_(*strategy), costs_(*costs) {}

  // By step of the seat's section, on a device of that kind.
  std::vector<Nanos> Of(const planner::SeatProgram& seat, uint32_t kind) const {
    std::vector<Nanos> steps;
    for (const SectionStep& step : seat.section.steps) {
      const bool forward = step.kind == SectionStep::Kind::kForward;
      if (!forward && step.kind != SectionStep::Kind::kBackward) {
        steps.push_back(0);
        continue;
      }
      const planner::TaskRef& part = seat.parts[step.index];
      if (part.op >= graph_.ops.size()) {  // moments: priced with what they are of
        steps.push_back(1);
        continue;
      }
      const planner::PlanOp& op = graph_.ops[part.op];
      const planner::PartCost cost =
          costs_.CostOf(op, planner::PartBlock(op, strategy_.ops[part.op], part.part), kind);
      steps.push_back(std::max<Nanos>(1, forward ? cost.forward_ns : cost.backward_ns));
    }
    return steps;
  }

 private:
  const planner::OpGraph& graph_;
  const planner::Strategy& strategy_;
  const planner::CostModel& costs_;
};

absl::StatusOr<Nanos> PlanStep(const planner::OpGraph& graph, const planner::Strategy& strategy,
                               uint32_t seats, const planner::Machine& machine,
                               const planner::CostModel& costs) {
  SOAP_ASSIGN_OR_RETURN(const planner::Machine own, planner::FirstDevices(machine, seats));
  planner::Simulator simulator(&graph, &own, &costs, {.rings_by_ranges = true});
  SOAP_RETURN_IF_ERROR(simulator.SetStrategy(strategy));
  return simulator.IterationTime();
}

}  // namespace

absl::StatusOr<PlannedTimes> PlanTimes(const cluster::TrainingJob& job,
                                       const wire::Strategy& message, const std::string& file,
                                       const planner::Machine& machine,
                                       const planner::CostModel& costs) {
  SOAP_RETURN_IF_ERROR(CheckMachine(job, machine));
  planner::OpGraphOptions options = {
      .batch = message.batch(),
      .time_chunk = message.time_chunk(),
      .micro_batches = std::max<int64_t>(1, message.micro_batches())};
  SOAP_ASSIGN_OR_RETURN(const planner::OpGraph whole, planner::MakeOpGraph(*job.graph, options));
  SOAP_ASSIGN_OR_RETURN(const planner::Strategy strategy,
                        planner::StrategyForWorkers(message, file, whole));
  PlannedTimes times;
  times.costs.steps.resize(job.workers);
  for (const auto& [samples, program] : job.team->plan.steps) {
    options.batch = samples;
    SOAP_ASSIGN_OR_RETURN(const planner::OpGraph graph, planner::MakeOpGraph(*job.graph, options));
    SOAP_ASSIGN_OR_RETURN(const planner::Strategy fitted,
                          planner::ForOtherBatch(whole, strategy, graph));
    const CostsOfSize of_size(&graph, &fitted, &costs);
    for (uint32_t w = 0; w < job.workers; ++w) {
      const uint32_t seat = wire::SeatOf(WorkerId{w}, job.team->shape);
      times.costs.steps[w][static_cast<uint64_t>(samples)] =
          of_size.Of(program.seats[seat], machine.devices()[w].kind);
    }
  }
  SOAP_ASSIGN_OR_RETURN(times.step_ns,
                        PlanStep(whole, strategy, job.team->shape.seats, machine, costs));
  return times;
}

}  // namespace soapstone::experiment
