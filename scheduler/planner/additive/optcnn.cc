#include "scheduler/planner/additive/optcnn.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "scheduler/planner/additive/additive_cost.h"
#include "scheduler/planner/additive/elimination.h"

namespace soapstone::planner {
namespace {

constexpr uint32_t kFewDevices = 8;
constexpr size_t kConfigsOfMany = 32;

}  // namespace

absl::StatusOr<SearchResult> OptCnnSearcher::Search(const SearchProblem& problem,
                                                    const SearchOptions& options) const {
  AdditiveOptions additive;
  if (problem.space->devices() > kFewDevices) additive.configs_max = kConfigsOfMany;
  additive.stop = [&options] { return options.ShouldStop(); };
  const AdditiveCost cost = MakeAdditiveCost(*problem.space, *problem.costs, additive);
  PairwiseMinimum found = {.complete = false};
  if (cost.complete) found = Minimize(cost.problem, {.stop = additive.stop});
  SearchResult result;
  Strategy strategy = DataParallel(problem.graph(), problem.space->devices());
  if (found.complete) {
    for (size_t op = 0; op < strategy.ops.size(); ++op) {
      strategy.ops[op] = cost.configs[op][found.choice[op]];
    }
    result.note = absl::StrFormat("%.3f ms without overlap", static_cast<double>(found.cost) / 1e6);
    if (!found.exact) {
      absl::StrAppend(&result.note, ", not proved: ", found.residual, " operators are left");
    }
  } else {
    result.note = "stopped by the budget before the tables were eliminated: data parallelism";
  }
  StrategyEvaluator evaluator(problem, options.simulator);
  evaluator.set_give_up(options.give_up);
  SOAP_ASSIGN_OR_RETURN(result.found, evaluator.PriceBest(&strategy));
  result.strategy = std::move(strategy);
  result.counts = evaluator.counts();
  return result;
}

}  // namespace soapstone::planner
