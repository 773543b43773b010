#include "apps/experiment/planned_job.h"

#include <utility>

#include "base/files/whole_file.h"
#include "base/status_macros.h"
#include "cluster/team/job_strategy.h"
#include "scheduler/planner/cost/measured_cost.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "strategy/machine_text.h"
#include "strategy/op_graph.h"

namespace soapstone::apps {
namespace {

absl::StatusOr<std::unique_ptr<planner::CostModel>> CostsOf(const Job& job, const std::string& path,
                                                            const planner::Machine& machine) {
  if (path.empty()) {
    return std::unique_ptr<planner::CostModel>(
        new planner::RooflineCost(machine.kinds(), planner::UsualEfficiencies()));
  }
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  SOAP_ASSIGN_OR_RETURN(const wire::CostTable table, planner::ParseCostTable(text, path));
  SOAP_ASSIGN_OR_RETURN(const planner::OpGraph graph, planner::MakeOpGraph(*job.graph, {}));
  SOAP_ASSIGN_OR_RETURN(std::unique_ptr<planner::MeasuredCost> measured,
                        planner::MeasuredCost::Make(table, path, job.config.model(),
                                                    graph.model_sha256, machine.kinds()));
  return std::unique_ptr<planner::CostModel>(std::move(measured));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const PlannedJob>> PlanJob(const Job& job,
                                                          const std::string& machine_path,
                                                          const std::string& costs_path) {
  if (job.team == nullptr) {
    return absl::InvalidArgumentError(
        "--machine: its devices and links are those of a job with a strategy, which this has not; "
        "else --iteration_us, --latency_us and --bandwidth_gbps say how long things take");
  }
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(machine_path));
  SOAP_ASSIGN_OR_RETURN(planner::Machine machine, planner::ParseMachine(text, machine_path));
  SOAP_ASSIGN_OR_RETURN(const JobStrategy file, ReadJobStrategy(job.config));
  SOAP_ASSIGN_OR_RETURN(const std::unique_ptr<planner::CostModel> costs,
                        CostsOf(job, costs_path, machine));
  SOAP_ASSIGN_OR_RETURN(experiment::PlannedTimes times,
                        experiment::PlanTimes(job, file.strategy, file.path, machine, *costs));
  return std::make_unique<const PlannedJob>(
      PlannedJob{.machine = std::move(machine), .times = std::move(times)});
}

}  // namespace soapstone::apps
