#include "scheduler/planner/searchers/plain_searchers.h"

#include <utility>

#include "base/status_macros.h"
#include "scheduler/planner/searchers/baselines.h"

namespace soapstone::planner {
namespace {

constexpr uint64_t kDrawsUnasked = 16;  // between two looks at the clock
constexpr uint64_t kTriesUnasked = 256;
constexpr int kPasses = 2;
constexpr uint64_t kRandomStream = 1 << 20;  // of the random source; a walk's are its chains

void Show(const SearchOptions& options, uint64_t done, const Score& best) {
  if (options.progress) options.progress({done, options.proposals, best});
}

}  // namespace

absl::StatusOr<SearchResult> DataSearcher::Search(const SearchProblem& problem,
                                                  const SearchOptions& options) const {
  return PricedAlone(problem, options, DataParallel(problem.graph(), problem.space->devices()));
}

absl::StatusOr<SearchResult> ModelSearcher::Search(const SearchProblem& problem,
                                                   const SearchOptions& options) const {
  return PricedAlone(problem, options,
                     ModelParallel(problem.graph(), problem.machine(), *problem.costs));
}

absl::StatusOr<SearchResult> ExpertSearcher::Search(const SearchProblem& problem,
                                                    const SearchOptions& options) const {
  return PricedAlone(problem, options, ExpertStrategy(problem.graph(), problem.machine()));
}

absl::StatusOr<SearchResult> RandomSearcher::Search(const SearchProblem& problem,
                                                    const SearchOptions& options) const {
  const auto ops = static_cast<uint32_t>(problem.graph().ops.size());
  const std::vector<Synchronization> ways = problem.ways();
  StrategyEvaluator evaluator(problem, options.simulator);
  RandomSource random(options.seed, kRandomStream);
  SearchResult result;
  Strategy drawn;
  drawn.ops.resize(ops);
  for (uint64_t i = 0; options.used || i < options.proposals; ++i) {
    // One is drawn in any case: a search has a result.
    if (i > 0 && i % kDrawsUnasked == 0 && options.ShouldStop()) break;
    for (uint32_t op = 0; op < ops; ++op) problem.space->DrawBlock(op, &random, &drawn.ops[op]);
    drawn.synchronization = ways[random.Below(static_cast<uint32_t>(ways.size()))];
    SOAP_ASSIGN_OR_RETURN(const Score found, evaluator.Price(drawn));
    if (!(found < result.found)) continue;
    result.found = found;
    result.strategy = drawn;
    Show(options, i, found);
  }
  result.counts = evaluator.counts();
  return result;
}

absl::StatusOr<SearchResult> GreedySearcher::Search(const SearchProblem& problem,
                                                    const SearchOptions& options) const {
  StrategyEvaluator evaluator(problem, options.simulator);
  Strategy start = DataParallel(problem.graph(), problem.space->devices());
  SearchResult result;
  SOAP_ASSIGN_OR_RETURN(result.best_seed, evaluator.PriceBest(&start));
  SOAP_RETURN_IF_ERROR(evaluator.Price(start).status());
  Simulator& simulator = evaluator.simulator();
  bool stopped = false;
  uint64_t tried = 0;
  for (int pass = 0; pass < kPasses && !stopped; ++pass) {
    for (uint32_t op = 0; op < problem.graph().ops.size() && !stopped; ++op) {
      for (OpConfig& config : problem.space->Configs(op)) {
        stopped = (!options.used && tried >= options.proposals) ||
                  (tried % kTriesUnasked == 0 && options.ShouldStop());
        if (stopped) break;
        ++tried;
        if (config == simulator.config(op)) continue;
        const Change change = {op, std::move(config)};
        // Any time will do for what needs less memory than is missing so far.
        const int64_t missing = simulator.Overflow();
        const Nanos now = simulator.StepTime();
        const Nanos time = simulator.Propose({&change, 1}, missing > 0 ? kNever - 1 : now - 1);
        const bool better = time != kNever && (time < now || simulator.Overflow() < missing);
        better ? simulator.Accept() : simulator.Reject();
      }
      Show(options, tried, {simulator.StepTime(), simulator.Overflow()});
    }
  }
  result.strategy = simulator.strategy();
  result.found = {simulator.StepTime(), simulator.Overflow()};
  result.counts = evaluator.counts();
  if (stopped) result.note = "stopped by the budget";
  return result;
}

}  // namespace soapstone::planner
