#include "apps/plan/plan_comparison.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/plan/plan_inputs.h"
#include "apps/plan/plan_report.h"
#include "apps/plan/planning.h"
#include "base/status_macros.h"
#include "strategy/strategy_text.h"

namespace soapstone::apps {
namespace {

std::string KeepersText(const planner::Strategy& strategy, uint32_t group) {
  if (strategy.servers.empty() || strategy.servers[group].empty()) return "all servers";
  const std::vector<uint32_t>& servers = strategy.servers[group];
  return absl::StrCat(servers.size() == 1 ? "server " : "servers ", DevicesText(servers));
}

std::string ConfigText(const planner::PlanOp& op, const planner::OpConfig& config) {
  return absl::StrCat(SplitsText(op, config), " on ", DevicesText(config.devices));
}

// Of operators, then of the servers that keep parameter groups.
StrategyComparison ComparisonOf(const planner::OpGraph& graph, const planner::Strategy& a,
                                const planner::Strategy& b) {
  StrategyComparison comparison;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (a.ops[i] == b.ops[i]) {
      ++comparison.operators_alike;
      continue;
    }
    const std::string of_a = ConfigText(graph.ops[i], a.ops[i]);
    const std::string of_b = ConfigText(graph.ops[i], b.ops[i]);
    comparison.differences.push_back(
        {graph.ops[i].name, of_a, of_a == of_b ? "its parts in another order" : of_b});
  }
  for (uint32_t group = 0; group < graph.groups.size(); ++group) {
    const std::string of_a = KeepersText(a, group);
    const std::string of_b = KeepersText(b, group);
    if (of_a == of_b) continue;
    comparison.differences.push_back(
        {planner::NameOfGroup(graph, group), absl::StrCat("kept by ", of_a), of_b});
  }
  return comparison;
}

}  // namespace

absl::StatusOr<std::string> CompareStrategies(const PlanFlags& flags) {
  const std::vector<std::string> paths = absl::StrSplit(flags.compare, ',');
  if (paths.size() != 2) {
    return absl::InvalidArgumentError("--compare: it takes two files, A,B");
  }
  std::vector<StrategyFile> files(2);
  for (size_t i = 0; i < 2; ++i) {
    SOAP_ASSIGN_OR_RETURN(files[i], ReadStrategyFile(paths[i]));
  }
  SOAP_ASSIGN_OR_RETURN(PlanningOptions options, OptionsOf(flags));
  FillFrom(files[0].message, &options);
  SOAP_ASSIGN_OR_RETURN(const std::unique_ptr<Planning> planning, Planning::Create(options));
  PlanSummary summary = {.graph = &planning->graph(),
                         .machine = &planning->machine(),
                         .costs = flags.costs_path.empty() ? "roofline" : flags.costs_path,
                         .search = "no search: two files",
                         .costs_sha256 = planning->costs().sha256()};
  std::string notes;
  for (const StrategyFile& file : files) {
    SOAP_ASSIGN_OR_RETURN(
        const planner::Strategy strategy,
        planner::StrategyFrom(file.message, file.path, planning->graph(), planning->machine()));
    summary.strategies.push_back(planning->Price(file.path, strategy));
    if (HasOtherCosts(file, *planning)) {
      absl::StrAppend(&notes, file.path, " was found by other costs than these: ", summary.costs,
                      "\n");
    }
  }
  summary.comparison = ComparisonOf(planning->graph(), summary.strategies[0].strategy,
                                    summary.strategies[1].strategy);
  if (flags.json) return PlanJson(summary);
  return absl::StrCat(StrategiesTable(summary), notes, ComparisonText(*summary.comparison));
}

}  // namespace soapstone::apps
