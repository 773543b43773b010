#include "scheduler/planner/walk_searcher.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "scheduler/planner/mcmc.h"
#include "scheduler/planner/plain_searchers.h"

namespace soapstone::planner {
namespace {

constexpr uint64_t kFirstWalk = 1000;  // proposals of a chain
constexpr double kShareOfRest = 0.7;   // of the time that is left, for the next walk
constexpr double kRestMin = 0.1;       // of all the time; less is not worth a walk

absl::StatusOr<std::vector<Strategy>> SeedsOf(const SearchProblem& problem,
                                              const SearchOptions& options) {
  std::vector<Strategy> seeds(problem.seeds.begin(), problem.seeds.end());
  if (!seeds.empty()) return seeds;
  const DataSearcher data;
  const ModelSearcher model;
  const ExpertSearcher expert;
  for (const Searcher* searcher : std::initializer_list<const Searcher*>{&data, &model, &expert}) {
    SOAP_ASSIGN_OR_RETURN(SearchResult seed, searcher->Search(problem, options));
    seeds.push_back(std::move(seed.strategy));
  }
  return seeds;
}

}  // namespace

absl::StatusOr<SearchResult> WalkSearcher::Search(const SearchProblem& problem,
                                                  const SearchOptions& options) const {
  SOAP_ASSIGN_OR_RETURN(std::vector<Strategy> seeds, SeedsOf(problem, options));
  if (!options.used) return SearchByWalk(*problem.space, *problem.costs, seeds, options);

  const size_t own = seeds.size();
  SearchOptions walk = options;
  walk.proposals = kFirstWalk;
  walk.stop = [&options] { return options.ShouldStop(); };
  SearchResult best;
  ProposalCounts counts;
  uint64_t accepted = 0;
  for (bool more = true; more; ++walk.seed) {
    const double began = options.used();
    SOAP_ASSIGN_OR_RETURN(SearchResult found,
                          SearchByWalk(*problem.space, *problem.costs, seeds, walk));
    counts += found.counts;
    accepted += found.accepted;
    if (walk.seed != options.seed) found.best_seed = best.best_seed;
    best = std::move(found);  // the best so far is among its seeds
    seeds.resize(own);
    seeds.push_back(best.strategy);
    const double now = options.used();
    more = 1 - now > kRestMin && !walk.stop();
    const double rate = static_cast<double>(walk.proposals) / std::max(now - began, 1e-9);
    walk.proposals = std::max(
        kFirstWalk, static_cast<uint64_t>(std::min(1e15, kShareOfRest * (1 - now) * rate)));
  }
  best.counts = counts;
  best.accepted = accepted;
  return best;
}

}  // namespace soapstone::planner
