#include "scheduler/planner/searchers/split_searchers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "scheduler/planner/additive/accpar.h"
#include "scheduler/planner/additive/tofu.h"
#include "scheduler/planner/pipeline/gpipe.h"
#include "scheduler/planner/pipeline/pipedream.h"
#include "scheduler/planner/pipeline/pipeline_stages.h"
#include "scheduler/planner/pipeline/replicated_stages.h"
#include "scheduler/planner/search/coordinate_descent.h"
#include "scheduler/planner/searchers/mesh_layout.h"

namespace soapstone::planner {
namespace {

absl::StatusOr<SearchResult> PricedUnlessStopped(const SearchProblem& problem,
                                                 const SearchOptions& options, Strategy strategy,
                                                 bool complete) {
  SOAP_ASSIGN_OR_RETURN(SearchResult result, PricedAlone(problem, options, std::move(strategy)));
  if (!complete) result.note = "stopped by the budget between two levels: data parallelism";
  return result;
}

}  // namespace

absl::StatusOr<SearchResult> MeshSearcher::Search(const SearchProblem& problem,
                                                  const SearchOptions& options) const {
  MeshLayoutOptions layouts = {.stop = [&options] { return options.ShouldStop(); }};
  if (!options.used) layouts.layouts_max = std::min(layouts.layouts_max, options.proposals);
  MeshPlan plan = PlanByMeshLayout(problem.graph(), problem.machine(), *problem.costs, layouts);
  return PricedAlone(problem, options, std::move(plan.strategy));
}

absl::StatusOr<SearchResult> TofuSearcher::Search(const SearchProblem& problem,
                                                  const SearchOptions& options) const {
  TofuPlan plan = PlanByTofu(problem.graph(), problem.machine(),
                             {.stop = [&options] { return options.ShouldStop(); }});
  return PricedUnlessStopped(problem, options, std::move(plan.strategy), plan.complete);
}

absl::StatusOr<SearchResult> AccParSearcher::Search(const SearchProblem& problem,
                                                    const SearchOptions& options) const {
  AccParPlan plan = PlanByAccPar(problem.graph(), problem.machine(), *problem.costs,
                                 {.stop = [&options] { return options.ShouldStop(); }});
  return PricedUnlessStopped(problem, options, std::move(plan.strategy), plan.complete);
}

absl::StatusOr<SearchResult> PipeDreamSearcher::Search(const SearchProblem& problem,
                                                       const SearchOptions& options) const {
  PricedPipeDream best =
      BestPipeDream(problem.graph(), problem.machine(), *problem.costs, options.simulator);
  SOAP_ASSIGN_OR_RETURN(SearchResult result,
                        PricedAlone(problem, options, std::move(best.strategy)));
  result.note =
      absl::StrCat(best.plan.stages.size(), " stages, ", best.plan.in_flight, " steps under way");
  return result;
}

absl::StatusOr<SearchResult> GPipeSearcher::Search(const SearchProblem& problem,
                                                   const SearchOptions& options) const {
  const OpGraph& graph = problem.graph();
  const Machine& machine = problem.machine();
  std::vector<std::vector<double>> times;  // [device][layer]
  for (const Device& device : machine.devices()) {
    std::vector<double>& of_layers = times.emplace_back(graph.groups.size(), 0.0);
    for (const PlanOp& op : graph.ops) {
      models::Block whole;
      for (const models::IterationDim& dim : op.rule.dims) whole.push_back({0, dim.extent});
      const PartCost cost = problem.costs->CostOf(op, whole, device.kind);
      of_layers[op.group] += static_cast<double>(cost.forward_ns + cost.backward_ns);
    }
  }
  const std::vector<PipelineStage> stages = BalanceStages(times);
  SOAP_ASSIGN_OR_RETURN(SearchResult result,
                        PricedAlone(problem, options, StrategyOfStages(graph, stages, 0)));
  result.note = absl::StrCat(stages.size(), " stages of ", graph.micro_batches, " micro-batches");
  return result;
}

absl::StatusOr<SearchResult> StagesSearcher::Search(const SearchProblem& problem,
                                                    const SearchOptions& options) const {
  const auto devices = static_cast<uint32_t>(problem.machine().devices().size());
  const auto stop = [&options] { return options.ShouldStop(); };
  StrategyEvaluator evaluator(problem, options.simulator);
  evaluator.set_give_up(options.give_up);
  std::vector<std::pair<Score, Strategy>> found;
  for (const BlockPlan& plan : BlockPlans(problem.graph(), problem.machine(), *problem.costs)) {
    if (!found.empty() && stop()) break;
    Strategy strategy = StrategyOfStages(problem.graph(), plan.stages, 0);
    SOAP_ASSIGN_OR_RETURN(const Score priced, evaluator.PriceBest(&strategy));
    found.emplace_back(priced, std::move(strategy));
  }
  // Of a model of one layer, or on one device: a block of all.
  if (found.empty()) return PricedAlone(problem, options, DataParallel(problem.graph(), devices));
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  SearchResult result = {.best_seed = found[0].first};
  for (const auto& [priced, strategy] : found) {
    if (!result.strategy.ops.empty() && stop()) break;
    SOAP_RETURN_IF_ERROR(evaluator.Price(strategy).status());
    Simulator& simulator = evaluator.simulator();
    const uint64_t proposed = evaluator.counts().proposed;
    const uint64_t left = options.proposals - std::min(proposed, options.proposals);
    DescendByStage(*problem.space,
                   {.trials = {.proposals = options.used ? UINT64_MAX : left, .stop = stop}},
                   &simulator);
    const Score now = {simulator.StepTime(), simulator.Overflow()};
    if (!result.strategy.ops.empty() && !(now < result.found)) continue;
    result.found = now;
    result.strategy = simulator.strategy();
  }
  result.counts = evaluator.counts();
  return result;
}

}  // namespace soapstone::planner
