#include "scheduler/planner/searchers/annealing_searcher.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "scheduler/planner/additive/optcnn.h"
#include "scheduler/planner/search/coordinate_descent.h"
#include "scheduler/planner/search/hill_climbing.h"
#include "scheduler/planner/search/mcmc.h"
#include "scheduler/planner/searchers/m_etf.h"
#include "scheduler/planner/searchers/plain_searchers.h"
#include "scheduler/planner/searchers/split_searchers.h"

namespace soapstone::planner {
namespace {

constexpr uint64_t kFirstWalk = 1000;  // proposals of a chain, at most
constexpr uint64_t kShortestWalk = 20;
constexpr double kShareOfWay = 0.1;   // of all the time, for another walk each way
constexpr double kShareOfRest = 0.5;  // of the time that is left for walks, for the next one
constexpr double kRestMin = 0.05;     // of all the time; less is not worth a walk
constexpr double kWalksShare = 0.8;   // of the time; the rest is the descent's
// A walk of so many proposals an operator begins as hot as SearchOptions says; a shorter one, which
// would not come back from where heat takes it, in proportion colder.
constexpr double kLongWalk = 1000;
constexpr int kDescentShare = 3;    // of the budget, at most a third for the first descent,
constexpr int kClimbShare = 2;      // and half until the climb before it is over
constexpr double kHopeless = 1.1;   // over the best: a way that is so far off has no longer walk
constexpr double kSeedShare = 0.2;  // of the time; seeds that are not begun by then are left out

constexpr double kStagesShare = 0.4;  // of the time, for stages of a graph in micro-batches

struct Seed {
  Strategy strategy;
  Score found;
};

const Seed& BestSeed(const std::vector<Seed>& seeds) {
  return *std::min_element(seeds.begin(), seeds.end(),
                           [](const Seed& a, const Seed& b) { return a.found < b.found; });
}

absl::Status AddPriced(const SearchProblem& problem, const SearchOptions& options,
                       absl::Span<const Strategy> strategies, std::vector<Seed>* seeds) {
  if (strategies.empty()) return absl::OkStatus();
  StrategyEvaluator evaluator(problem, options.simulator);
  for (const Strategy& strategy : strategies) {
    SOAP_ASSIGN_OR_RETURN(const Score found, evaluator.Look(strategy));
    seeds->push_back({strategy, found});
  }
  return absl::OkStatus();
}

// Of seeds that were all given up: data parallelism in one way, however long it takes.
absl::StatusOr<Seed> FirstSeed(const SearchProblem& problem, const SearchOptions& options) {
  Seed seed = {.strategy = DataParallel(problem.graph(), problem.space->devices())};
  SetSynchronization(problem.ways()[0], &seed.strategy);
  StrategyEvaluator evaluator(problem, options.simulator);
  SOAP_ASSIGN_OR_RETURN(seed.found, evaluator.Price(seed.strategy));
  problem.prices->Add(seed.strategy, seed.found);
  return seed;
}

// What simpler searchers find, each on one of the threads. In a search that is not timed they are
// all there; data parallelism, and of a graph in micro-batches stages, always are. left_out: names
// of those for which there was no time.
absl::StatusOr<std::vector<Seed>> SeedsOf(const SearchProblem& problem,
                                          const SearchOptions& options,
                                          std::vector<std::string>* left_out) {
  std::vector<Seed> seeds;
  SOAP_RETURN_IF_ERROR(AddPriced(problem, options, problem.seeds, &seeds));
  SOAP_RETURN_IF_ERROR(AddPriced(problem, options, problem.known, &seeds));
  if (!problem.seeds.empty()) return seeds;
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
  const StagesSearcher stages;
  const Searcher* const all[] = {&data, &model, &expert, &metf, &tofu, &accpar, &optcnn, &stages};
  SearchOptions longer = early;
  if (options.used) longer.used = [&options] { return options.used() / kStagesShare; };
  // Those first that a walk most often begins with. Stages have something to overlap where there
  // are micro-batches, in which a walk finds none in time.
  std::vector<size_t> order = {0, 5, 4, 2, 1, 3, 6};
  const size_t always = problem.graph().micro_batches > 1 ? 2 : 1;
  if (always > 1) order.insert(order.begin() + 1, 7);
  std::vector<absl::StatusOr<SearchResult>> made(std::size(all), SearchResult());
  std::atomic<size_t> next = 0;
  const auto search = [&] {
    for (size_t i = next++; i < order.size(); i = next++) {
      const size_t at = order[i];
      if (i < always || !early.ShouldStop()) {
        made[at] = all[at]->Search(problem, all[at] == &stages ? longer : early);
      }
    }
  };
  std::vector<std::thread> others;
  for (uint32_t t = 1; t < options.threads; ++t) others.emplace_back(search);
  search();
  for (std::thread& thread : others) thread.join();
  // Where nothing fits, stages need the least memory for parameters.
  const auto fits = [](const absl::StatusOr<SearchResult>& seed) {
    return !seed.ok() || seed->found.overflow_bytes == 0;
  };
  if (always == 1 && std::none_of(made.begin(), made.end(), fits))
    made[7] = stages.Search(problem, longer);
  for (size_t at : order) {
    absl::StatusOr<SearchResult>& seed = made[at];
    if (!absl::IsDeadlineExceeded(seed.status())) SOAP_RETURN_IF_ERROR(seed.status());
    if (!seed.ok() || !seed->found.priced()) left_out->emplace_back(all[at]->name());
  }
  for (absl::StatusOr<SearchResult>& seed : made) {
    if (!seed.ok() || !seed->found.priced()) continue;
    seeds.push_back({std::move(seed->strategy), seed->found});
  }
  if (seeds.empty()) {
    SOAP_ASSIGN_OR_RETURN(seeds.emplace_back(), FirstSeed(problem, options));
  }
  return seeds;
}

// As SearchByWalk takes them: the best ones, as many as there are chains. The others have no chain
// to begin.
std::vector<Strategy> BestOf(const std::vector<Seed>& seeds, uint32_t chains) {
  std::vector<size_t> order(seeds.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return seeds[a].found < seeds[b].found; });
  order.resize(std::min<size_t>(order.size(), std::max<uint32_t>(chains, 1)));
  std::vector<Strategy> best;
  for (size_t i : order) best.push_back(seeds[i].strategy);
  return best;
}

bool HasServersToChoose(const SearchProblem& problem, Synchronization way) {
  return way == Synchronization::kServers && problem.machine().servers().size() > 1;
}

// Under servers each in the best of a few ways for them to keep its groups.
absl::StatusOr<std::vector<Seed>> WithWay(const SearchProblem& problem, std::vector<Seed> seeds,
                                          Synchronization way, StrategyEvaluator* evaluator) {
  for (Seed& seed : seeds) {
    SetSynchronization(way, &seed.strategy);
    if (!HasServersToChoose(problem, way)) {
      SOAP_ASSIGN_OR_RETURN(seed.found, evaluator->Look(seed.strategy));
      continue;
    }
    const absl::StatusOr<Score> priced = evaluator->Price(seed.strategy);
    if (absl::IsDeadlineExceeded(priced.status())) {
      seed.found = Score();
      continue;
    }
    SOAP_RETURN_IF_ERROR(priced.status());
    Simulator& simulator = evaluator->simulator();
    DescendByServers(*problem.space, {}, false, &simulator);
    seed.strategy = simulator.strategy();
    seed.found = {simulator.StepTime(), simulator.Overflow()};
  }
  return seeds;
}

// The best of them, under servers, with who keeps what as it suits it: the same seed where equal
// shares are best, or nothing else is possible.
absl::StatusOr<Seed> WithServers(const SearchProblem& problem, const std::vector<Seed>& seeds,
                                 const std::function<bool()>& stop, StrategyEvaluator* evaluator) {
  Seed best = BestSeed(seeds);
  SOAP_RETURN_IF_ERROR(evaluator->Price(best.strategy).status());
  Simulator& simulator = evaluator->simulator();
  DescendByServers(*problem.space, {.trials = {.stop = stop}}, true, &simulator);
  best.strategy = simulator.strategy();
  best.found = {simulator.StepTime(), simulator.Overflow()};
  return best;
}

// With which a walk in this way begins.
absl::StatusOr<std::vector<Seed>> BeginningsOf(const SearchProblem& problem,
                                               const std::vector<Seed>& seeds, Synchronization way,
                                               const std::function<bool()>& stop,
                                               StrategyEvaluator* evaluator) {
  SOAP_ASSIGN_OR_RETURN(std::vector<Seed> priced, WithWay(problem, seeds, way, evaluator));
  if (HasServersToChoose(problem, way)) {
    SOAP_ASSIGN_OR_RETURN(priced.emplace_back(), WithServers(problem, priced, stop, evaluator));
  }
  return priced;
}

// The strategy in the way that suits it best.
absl::Status TakeUnlessWorse(Strategy strategy, StrategyEvaluator* evaluator, SearchResult* best) {
  SOAP_ASSIGN_OR_RETURN(const Score found, evaluator->PriceBest(&strategy));
  if (best->found.priced() && best->found < found) return absl::OkStatus();
  best->strategy = std::move(strategy);
  best->found = found;
  return absl::OkStatus();
}

// The ways to synchronize, those first in which the best seed is better.
absl::StatusOr<std::vector<Synchronization>> WaysByBest(const SearchProblem& problem,
                                                        const std::vector<Seed>& seeds,
                                                        std::vector<Synchronization> ways,
                                                        StrategyEvaluator* evaluator) {
  std::vector<std::pair<Score, Synchronization>> order;
  for (const Synchronization way : ways) {
    SOAP_ASSIGN_OR_RETURN(const std::vector<Seed> priced, WithWay(problem, seeds, way, evaluator));
    Score best;
    for (const Seed& seed : priced) best = std::min(best, seed.found);
    order.emplace_back(best, way);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < ways.size(); ++i) ways[i] = order[i].second;
  return ways;
}

struct Descended {
  Score best_seed;
  double proposals_a_share = 0;  // of all the time; 0: unknown
};

// Adds the best of the seeds, improved kind by kind and layer by layer.
absl::StatusOr<Descended> AddDescended(const SearchProblem& problem, const SearchOptions& options,
                                       std::vector<Seed>* seeds) {
  const Seed& best = BestSeed(*seeds);
  Descended result = {.best_seed = best.found};
  StrategyEvaluator evaluator(problem, options.simulator);
  evaluator.set_give_up(options.give_up);
  SOAP_RETURN_IF_ERROR(evaluator.Price(best.strategy).status());
  const auto limits = [&options](int share) {
    if (!options.used) return TrialLimits{.proposals = options.proposals / share};
    return TrialLimits{
        .stop = [&options, share] { return options.ShouldStop() || options.used() * share > 1; },
        .threads = options.threads};
  };
  const double began = options.used ? options.used() : 0;
  Simulator& simulator = evaluator.simulator();
  ClimbByGroup(*problem.space, limits(kClimbShare), &simulator);
  DescendByGroup(*problem.space, {.trials = limits(kDescentShare)}, &simulator);
  if (options.used) {
    result.proposals_a_share =
        static_cast<double>(simulator.counts().proposed) /
        (std::max(options.used() - began, 1e-9) * std::max<uint32_t>(options.threads, 1));
  }
  seeds->push_back({simulator.strategy(), {simulator.StepTime(), simulator.Overflow()}});
  return result;
}

// To a local optimum.
absl::Status Descend(const SearchProblem& problem, const TrialLimits& limits,
                     StrategyEvaluator* evaluator, SearchResult* best) {
  SOAP_RETURN_IF_ERROR(evaluator->Price(best->strategy).status());
  Simulator& simulator = evaluator->simulator();
  ClimbByOperator(*problem.space, limits, &simulator);
  DescendByServers(*problem.space, {.trials = limits}, true, &simulator);
  best->locally_optimal = DescendByOperator(*problem.space, {.trials = limits}, &simulator);
  best->strategy = simulator.strategy();
  best->found = {simulator.StepTime(), simulator.Overflow()};
  return absl::OkStatus();
}

// Walk behind walk, from the seeds and the best so far: a walk cools down along its length, which
// must be known. A short and a longer one for each way to synchronize, then halves of the time that
// is left, all but what the descent needs. *result: the best so far, also where it ends with an
// error.
absl::Status WalkForATime(const SearchProblem& problem, const SearchOptions& options,
                          double proposals_a_share, std::vector<Seed> seeds, SearchResult* result) {
  StrategyEvaluator evaluator(problem, options.simulator);
  evaluator.set_give_up(options.give_up);
  SOAP_ASSIGN_OR_RETURN(const std::vector<Synchronization> ways,
                        WaysByBest(problem, seeds, problem.ways(), &evaluator));
  SearchResult& best = *result;
  SOAP_RETURN_IF_ERROR(TakeUnlessWorse(seeds.back().strategy, &evaluator, &best));
  SearchOptions walk = options;
  walk.descend = false;
  walk.proposals = kFirstWalk;
  if (proposals_a_share > 0) {
    walk.proposals = static_cast<uint64_t>(
        std::clamp(kShareOfWay * proposals_a_share, double{kShortestWalk}, double{kFirstWalk}));
  }
  walk.stop = [&options] { return options.ShouldStop(); };
  ProposalCounts counts;
  uint64_t accepted = 0;
  std::vector<bool> hopeless(ways.size(), false);
  double left = kWalksShare - options.used();
  for (size_t i = 0; left > kRestMin && !walk.stop(); ++i, ++walk.seed) {
    const bool longer = i >= ways.size() && i < 2 * ways.size();
    if (longer && hopeless[i - ways.size()]) continue;
    const double began = options.used();
    const Synchronization way =
        i < 2 * ways.size() ? ways[i % ways.size()] : best.strategy.synchronization;
    seeds.push_back({best.strategy, best.found});
    SOAP_ASSIGN_OR_RETURN(std::vector<Seed> priced,
                          BeginningsOf(problem, seeds, way, walk.stop, &evaluator));
    seeds.pop_back();
    const double length = static_cast<double>(walk.proposals) /
                          static_cast<double>(std::max<size_t>(problem.graph().ops.size(), 1));
    walk.beta_first = std::clamp(options.beta_first * kLongWalk / std::max(length, 1e-9),
                                 options.beta_first, options.beta_last);
    SOAP_ASSIGN_OR_RETURN(SearchResult found, SearchByWalk(*problem.space, *problem.costs,
                                                           BestOf(priced, walk.chains), walk));
    counts += found.counts;
    accepted += found.accepted;
    if (i < ways.size()) {
      hopeless[i] = static_cast<double>(found.found.step_ns) >
                    kHopeless * static_cast<double>(best.found.step_ns);
    }
    SOAP_ASSIGN_OR_RETURN(found.found, evaluator.PriceBest(&found.strategy));
    if (found.found < best.found) best = std::move(found);
    const double now = options.used();
    left = kWalksShare - now;
    if (i + 1 < ways.size()) continue;
    const double rate = static_cast<double>(walk.proposals) / std::max(now - began, 1e-9);
    const double share = i + 1 < 2 * ways.size() ? kShareOfWay : kShareOfRest * left;
    walk.proposals =
        std::max(kShortestWalk, static_cast<uint64_t>(std::min(1e15, std::max(share, 0.0) * rate)));
  }
  best.accepted = accepted;
  SOAP_RETURN_IF_ERROR(
      Descend(problem, {.stop = walk.stop, .threads = options.threads}, &evaluator, &best));
  best.counts = counts;
  best.counts += evaluator.counts();
  return absl::OkStatus();
}

// From the seeds on. *result: the best so far, also where it ends with an error.
absl::Status SearchFrom(const SearchProblem& problem, const SearchOptions& options,
                        std::vector<Seed> seeds, Descended* descended, SearchResult* result) {
  const Seed& best = BestSeed(seeds);
  result->strategy = best.strategy;
  result->found = descended->best_seed = best.found;
  if (options.give_up && options.give_up()) return absl::DeadlineExceededError("no time is left");
  SOAP_ASSIGN_OR_RETURN(*descended, AddDescended(problem, options, &seeds));
  if (options.used) {
    return WalkForATime(problem, options, descended->proposals_a_share, std::move(seeds), result);
  }
  SOAP_ASSIGN_OR_RETURN(*result, SearchByWalk(*problem.space, *problem.costs,
                                              BestOf(seeds, options.chains), options));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SearchResult> AnnealingSearcher::Search(const SearchProblem& problem,
                                                       const SearchOptions& options) const {
  CostCache prices;
  SearchProblem shared = problem;
  if (shared.prices == nullptr) shared.prices = &prices;
  std::vector<std::string> left_out;
  SOAP_ASSIGN_OR_RETURN(std::vector<Seed> seeds, SeedsOf(shared, options, &left_out));
  SearchResult result;
  Descended descended;
  const absl::Status searched = SearchFrom(shared, options, std::move(seeds), &descended, &result);
  // What there is by then is the result.
  if (absl::IsDeadlineExceeded(searched)) {
    left_out.emplace_back("a search from there");
  } else {
    SOAP_RETURN_IF_ERROR(searched);
  }
  result.best_seed = descended.best_seed;
  if (!left_out.empty()) result.note = absl::StrCat("no time for ", absl::StrJoin(left_out, ", "));
  return result;
}

}  // namespace soapstone::planner
