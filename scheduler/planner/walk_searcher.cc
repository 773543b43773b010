#include "scheduler/planner/walk_searcher.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "scheduler/planner/descent.h"
#include "scheduler/planner/m_etf.h"
#include "scheduler/planner/mcmc.h"
#include "scheduler/planner/optcnn.h"
#include "scheduler/planner/plain_searchers.h"
#include "scheduler/planner/split_searchers.h"

namespace soapstone::planner {
namespace {

constexpr uint64_t kFirstWalk = 1000;  // proposals of a chain
constexpr double kShareOfWay = 0.1;    // of all the time, for another walk each way
constexpr double kShareOfRest = 0.5;   // of the time that is left for walks, for the next one
constexpr double kRestMin = 0.05;      // of all the time; less is not worth a walk
constexpr double kWalksShare = 0.8;    // of the time; the rest is the descent's
constexpr int kDescentShare = 3;       // of the budget, at most a third for the first descent

constexpr double kSeedShare = 0.2;  // of the time, for the tables of OptCNN

absl::StatusOr<std::vector<Strategy>> SeedsOf(const SearchProblem& problem,
                                              const SearchOptions& options) {
  std::vector<Strategy> seeds(problem.seeds.begin(), problem.seeds.end());
  if (!seeds.empty()) return seeds;
  SearchOptions early = options;
  early.progress = nullptr;
  if (options.used) early.used = [&options] { return options.used() / kSeedShare; };
  const DataSearcher data;
  const ModelSearcher model;
  const ExpertSearcher expert;
  const MetfSearcher metf;
  const OptCnnSearcher optcnn;
  const TofuSearcher tofu;
  const AccParSearcher accpar;
  const Searcher* const all[] = {&data, &model, &expert, &metf, &tofu, &accpar, &optcnn};
  for (const Searcher* searcher : all) {
    SOAP_ASSIGN_OR_RETURN(SearchResult seed, searcher->Search(problem, early));
    seeds.push_back(std::move(seed.strategy));
  }
  return seeds;
}

// Adds the best of the seeds, improved layer by layer. Returns the best as it was.
absl::StatusOr<Found> AddDescended(const SearchProblem& problem, const SearchOptions& options,
                                   std::vector<Strategy>* seeds) {
  Pricer pricer(problem, options.simulator);
  Found best;
  size_t best_at = 0;
  for (size_t i = 0; i < seeds->size(); ++i) {
    SOAP_ASSIGN_OR_RETURN(const Found found, pricer.Price((*seeds)[i]));
    if (!(found < best)) continue;
    best = found;
    best_at = i;
  }
  SOAP_RETURN_IF_ERROR(pricer.Price((*seeds)[best_at]).status());
  DescentLimits limits = {.proposals = options.proposals / kDescentShare};
  if (options.used) {
    limits.proposals = UINT64_MAX;
    limits.stop = [&options] { return options.ShouldStop() || options.used() * kDescentShare > 1; };
  }
  DescendByGroup(*problem.space, limits, &pricer.simulator());
  seeds->push_back(pricer.simulator().strategy());
  return best;
}

}  // namespace

absl::StatusOr<SearchResult> WalkSearcher::Search(const SearchProblem& problem,
                                                  const SearchOptions& options) const {
  SOAP_ASSIGN_OR_RETURN(std::vector<Strategy> seeds, SeedsOf(problem, options));
  SOAP_ASSIGN_OR_RETURN(const Found best_seed, AddDescended(problem, options, &seeds));
  if (!options.used) {
    SOAP_ASSIGN_OR_RETURN(SearchResult result,
                          SearchByWalk(*problem.space, *problem.costs, seeds, options));
    result.best_seed = best_seed;
    return result;
  }

  // Walk behind walk, from the seeds and the best so far: a walk cools down along its length, which
  // must be known. A short and a longer one for each way to synchronize, then halves of the time
  // that is left, all but what the descent needs.
  const std::vector<Synchronization> ways = problem.ways();
  Pricer pricer(problem, options.simulator);
  const size_t own = seeds.size();
  SearchOptions walk = options;
  walk.descend = false;
  walk.proposals = kFirstWalk;
  walk.stop = [&options] { return options.ShouldStop(); };
  SearchResult best;
  ProposalCounts counts;
  uint64_t accepted = 0;
  double left = 1;
  for (size_t i = 0; i == 0 || (left > kRestMin && !walk.stop()); ++i, ++walk.seed) {
    const double began = options.used();
    const Synchronization way =
        i < 2 * ways.size() ? ways[i % ways.size()] : best.strategy.synchronization;
    for (Strategy& seed : seeds) seed.synchronization = way;
    SOAP_ASSIGN_OR_RETURN(SearchResult found,
                          SearchByWalk(*problem.space, *problem.costs, seeds, walk));
    counts += found.counts;
    accepted += found.accepted;
    SOAP_ASSIGN_OR_RETURN(found.found, pricer.PriceBest(&found.strategy));
    if (found.found < best.found) best = std::move(found);
    seeds.resize(own);
    seeds.push_back(best.strategy);
    const double now = options.used();
    left = kWalksShare - now;
    if (i + 1 < ways.size()) continue;
    const double rate = static_cast<double>(walk.proposals) / std::max(now - began, 1e-9);
    const double share = i + 1 < 2 * ways.size() ? kShareOfWay : kShareOfRest * left;
    walk.proposals =
        std::max(kFirstWalk, static_cast<uint64_t>(std::min(1e15, std::max(share, 0.0) * rate)));
  }
  best.accepted = accepted;
  SOAP_RETURN_IF_ERROR(pricer.Price(best.strategy).status());
  Simulator& simulator = pricer.simulator();
  best.locally_optimal = DescendByOperator(*problem.space, {.stop = walk.stop}, &simulator);
  best.strategy = simulator.strategy();
  best.found = {simulator.StepTime(), simulator.MemoryOverflow()};
  best.counts = counts;
  best.counts += pricer.counts();
  best.best_seed = best_seed;
  return best;
}

}  // namespace soapstone::planner
