#include "scheduler/planner/search/searcher.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace soapstone::planner {

std::vector<Synchronization> SearchProblem::ways() const {
  if (!only_ways.empty()) return {only_ways.begin(), only_ways.end()};
  return SynchronizationsOf(machine());
}

StrategyEvaluator::StrategyEvaluator(const SearchProblem& problem, const SimulatorOptions& options)
    : StrategyEvaluator(&problem.graph(), &problem.machine(), problem.costs, options,
                        problem.ways(), problem.prices) {}

absl::StatusOr<SearchResult> RunSearcher(const Searcher& searcher, const SearchProblem& problem,
                                         const SearchOptions& options) {
  SOAP_ASSIGN_OR_RETURN(SearchResult result, searcher.Search(problem, options));
  StrategyEvaluator evaluator(problem, options.simulator);
  // What was found last of all is known; only where there is time it is priced a second time.
  const bool late = options.give_up && options.give_up();
  SOAP_ASSIGN_OR_RETURN(result.found,
                        late ? evaluator.Look(result.strategy) : evaluator.Price(result.strategy));
  if (!searcher.is_search()) return result;
  evaluator.set_give_up(options.give_up);
  Strategy data = DataParallel(problem.graph(), problem.space->devices());
  SOAP_ASSIGN_OR_RETURN(const Score of_data, evaluator.PriceBest(&data));
  if (!(of_data < result.found)) return result;
  const std::string note = result.found.overflow_bytes > of_data.overflow_bytes
                               ? absl::StrFormat("its own plan needs or moves %d bytes too many",
                                                 result.found.overflow_bytes)
                               : absl::StrFormat("its own plan takes %.3f ms",
                                                 static_cast<double>(result.found.step_ns) / 1e6);
  absl::StrAppend(&result.note, result.note.empty() ? "" : "; ", "data parallelism: ", note);
  result.found = of_data;
  result.strategy = std::move(data);
  result.locally_optimal = result.proved = false;
  return result;
}

absl::StatusOr<SearchResult> PricedAlone(const SearchProblem& problem, const SearchOptions& options,
                                         Strategy strategy) {
  StrategyEvaluator evaluator(problem, options.simulator);
  evaluator.set_give_up(options.give_up);
  SearchResult result;
  SOAP_ASSIGN_OR_RETURN(result.found, evaluator.PriceBest(&strategy));
  result.strategy = std::move(strategy);
  result.counts = evaluator.counts();
  return result;
}

}  // namespace soapstone::planner
