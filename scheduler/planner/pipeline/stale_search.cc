#include "scheduler/planner/pipeline/stale_search.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "scheduler/planner/pipeline/pipedream.h"
#include "scheduler/planner/pipeline/replicated_stages.h"
#include "scheduler/planner/search/proposals.h"

namespace soapstone::planner {
namespace {

constexpr double kShareOfSeeds = 0.4;       // of the time, for pricing them
constexpr uint64_t kStaleStream = 1 << 21;  // of the random source; a walk's are its chains
// An iteration is priced in the time of so many steps, and more (measured: 60 to 200).
constexpr double kStepsAnIteration = 100;
constexpr double kIterationsMin = 4;
constexpr uint64_t kShown = 64;  // proposals between two of progress

Score PriceOf(Simulator* simulator) { return {simulator->IterationTime(), simulator->Overflow()}; }

bool IsWorthy(const Score& found, const Score& best) {
  return found.overflow_bytes == 0 && static_cast<double>(found.step_ns) <=
                                          (1 + kStalenessWorth) * static_cast<double>(best.step_ns);
}

// From the strategy's bound down as long as a lesser one is worthy, or this one does not fit.
absl::StatusOr<StaleIteration> LeastFrom(Strategy strategy, const SearchOptions& options,
                                         Simulator* simulator) {
  SOAP_RETURN_IF_ERROR(simulator->SetStrategy(strategy));
  StaleIteration least = {strategy.staleness, PriceOf(simulator)};
  Score best = least.found;
  while (strategy.staleness > 0 && !options.ShouldStop()) {
    --strategy.staleness;
    SOAP_RETURN_IF_ERROR(simulator->SetStrategy(strategy));
    const Score found = PriceOf(simulator);
    if (least.found.overflow_bytes == 0 && !IsWorthy(found, best)) break;
    best = std::min(best, found);
    least = {strategy.staleness, found};
  }
  return least;
}

// A walk on iterations' times, as Chain's on steps' (mcmc.cc).
class StaleWalk {
 public:
  StaleWalk(const Space& space, const SearchOptions& options, Simulator* simulator)
      : options_(options),
        moves_(&space, true),
        random_(options.seed, kStaleStream),
        simulator_(*simulator),
        together_(simulator->strategy().staleness + 1) {
    now_ = PriceOf(simulator);
    Keep();
  }

  void Run(uint64_t proposals) {
    const double began = options_.used ? options_.used() : 0;
    const auto scale = static_cast<double>(std::max<Nanos>(1, now_.step_ns));
    for (uint64_t i = 0; options_.used || i < proposals; ++i) {
      if (options_.ShouldStop()) return;
      double done = static_cast<double>(i) / static_cast<double>(std::max<uint64_t>(proposals, 1));
      if (options_.used) done = (options_.used() - began) / std::max(1e-9, 1 - began);
      const double beta = options_.beta_first *
                          std::pow(options_.beta_last / options_.beta_first, std::min(done, 1.0));
      Step(scale / beta);
      ++proposed_;
      if (options_.progress && i % kShown == 0) options_.progress({i, proposals, best_});
    }
  }

  const Score& best() const { return best_; }
  const Strategy& best_strategy() const { return best_strategy_; }
  uint64_t proposed() const { return proposed_; }
  uint64_t priced() const { return priced_; }

 private:
  void Step(double temperature) {
    const absl::Span<const Change> changes = moves_.Draw(simulator_, &random_);
    const double cutoff =
        static_cast<double>(now_.step_ns) - temperature * std::log(random_.Uniform());
    const absl::Span<const ServerChange> servers = moves_.servers();
    if (changes.empty() && servers.empty()) return;
    back_.clear();
    servers_back_.clear();
    for (const Change& change : changes) back_.push_back({change.op, simulator_.config(change.op)});
    for (const ServerChange& change : servers) {
      servers_back_.push_back({change.group, simulator_.servers(change.group)});
    }
    const double step_max = std::min(9e18, cutoff * together_);
    if (simulator_.Propose(changes, static_cast<Nanos>(step_max), servers) == kNever) {
      return simulator_.Reject();
    }
    simulator_.Accept();
    const bool fits_better = simulator_.Overflow() < now_.overflow_bytes;
    if (fits_better || BusiestQueue() <= cutoff) {
      const Score found = PriceOf(&simulator_);
      ++priced_;
      if (fits_better || static_cast<double>(found.step_ns) <= cutoff) {
        now_ = found;
        if (now_ < best_) Keep();
        return;
      }
    }
    CHECK(simulator_.Propose(back_, kNever - 1, servers_back_) != kNever);
    simulator_.Accept();
  }

  double BusiestQueue() {
    const std::vector<Nanos> busy = simulator_.Explain().busy_ns;
    return static_cast<double>(*std::max_element(busy.begin(), busy.end()));
  }

  void Keep() {
    best_ = now_;
    best_strategy_ = simulator_.strategy();
  }

  const SearchOptions& options_;
  ProposalGenerator moves_;
  RandomSource random_;
  Simulator& simulator_;
  const double together_;
  Score now_, best_;
  Strategy best_strategy_;
  std::vector<Change> back_;
  std::vector<ServerChange> servers_back_;
  uint64_t proposed_ = 0, priced_ = 0;
};

// Where a walk may begin.
std::vector<Strategy> StaleSeeds(const SearchProblem& problem, const Strategy& plan) {
  const OpGraph& graph = problem.graph();
  const Machine& machine = problem.machine();
  std::vector<Strategy> seeds = {plan};
  for (const PipeDreamPlan& of : PipeDreamPlans(graph, machine, *problem.costs)) {
    seeds.push_back(PipeDreamStrategy(graph, of));
  }
  for (const BlockPlan& of : BlockPlans(graph, machine, *problem.costs)) {
    seeds.push_back(
        StrategyOfStages(graph, of.stages, static_cast<uint32_t>(of.stages.size()) - 1));
  }
  seeds.push_back(DataParallel(graph, problem.space->devices()));
  return seeds;
}

struct StaleSeed {
  Strategy strategy;
  Score found;
};

bool IsBetter(const StaleSeed& a, const StaleSeed& b) { return a.found < b.found; }

// All of them with each synchronization, under a staleness of one less than their stages and under
// the most, by what their iterations take at least: as long as the busiest queue is busy, and a
// step's share of the steps under way.
absl::StatusOr<std::vector<StaleSeed>> SeedsByEstimate(const SearchProblem& problem,
                                                       const Strategy& plan, uint32_t staleness_max,
                                                       const SearchOptions& options,
                                                       Simulator* simulator) {
  std::vector<StaleSeed> seeds;
  for (Strategy& seed : StaleSeeds(problem, plan)) {
    const std::set<uint32_t> bounds = {std::clamp<uint32_t>(seed.staleness, 1, staleness_max),
                                       staleness_max};
    for (const Synchronization way : problem.ways()) {
      if (!seeds.empty() && options.ShouldStop()) break;
      SetSynchronization(way, &seed);
      for (const uint32_t bound : bounds) {
        seed.staleness = bound;
        SOAP_RETURN_IF_ERROR(simulator->SetStrategy(seed));
        const Breakdown step = simulator->Explain();
        const Nanos busiest = *std::max_element(step.busy_ns.begin(), step.busy_ns.end());
        const Nanos at_least = std::max(busiest, step.step_ns / (bound + 1));
        seeds.push_back({seed, {at_least, simulator->Overflow()}});
      }
    }
  }
  std::stable_sort(seeds.begin(), seeds.end(), IsBetter);
  return seeds;
}

absl::StatusOr<StaleSeed> BestSeed(std::vector<StaleSeed> seeds, const SearchOptions& options,
                                   Simulator* simulator) {
  StaleSeed best;
  for (StaleSeed& seed : seeds) {
    if (!IsBetter(seed, best)) break;  // nor is any behind it
    const bool late = options.used && options.used() > kShareOfSeeds;
    if (!best.strategy.ops.empty() && (late || options.ShouldStop())) break;
    SOAP_RETURN_IF_ERROR(simulator->SetStrategy(seed.strategy));
    seed.found = PriceOf(simulator);
    if (IsBetter(seed, best)) best = std::move(seed);
  }
  return best;
}

// Whether some iterations can be priced in the time that is left.
bool IsAffordable(const SearchOptions& options, Simulator* simulator) {
  if (!options.used) return true;
  const double began = options.used();
  simulator->Simulate();
  const double now = options.used();
  return now + kIterationsMin * kStepsAnIteration * (now - began) < 1;
}

}  // namespace

const StaleIteration& LeastWorthy(absl::Span<const StaleIteration> of) {
  CHECK(!of.empty());
  const auto is_less = [](const auto& a, const auto& b) { return a.found < b.found; };
  const Score best = std::min_element(of.begin(), of.end(), is_less)->found;
  for (const StaleIteration& one : of) {
    if (IsWorthy(one.found, best)) return one;
  }
  return of[0];
}

absl::StatusOr<SearchResult> SearchStaleness(const SearchProblem& problem, const Strategy& plan,
                                             uint32_t staleness_max, const SearchOptions& options) {
  CHECK_GT(staleness_max, 0u);
  Simulator simulator(&problem.graph(), &problem.machine(), problem.costs, options.simulator);
  StaleSeed planned = {.strategy = plan};
  planned.strategy.staleness = 0;
  SOAP_RETURN_IF_ERROR(simulator.SetStrategy(planned.strategy));
  const bool affordable = IsAffordable(options, &simulator);
  planned.found = PriceOf(&simulator);
  if (!affordable) {
    return SearchResult{.strategy = planned.strategy,
                        .found = planned.found,
                        .note = "no time to look at iterations that overlap"};
  }
  planned.strategy.staleness = staleness_max;
  SOAP_ASSIGN_OR_RETURN(const StaleIteration of_plan,
                        LeastFrom(planned.strategy, options, &simulator));
  planned.strategy.staleness = of_plan.staleness;
  planned.found = of_plan.found;
  SOAP_ASSIGN_OR_RETURN(std::vector<StaleSeed> seeds,
                        SeedsByEstimate(problem, plan, staleness_max, options, &simulator));
  SOAP_ASSIGN_OR_RETURN(StaleSeed found, BestSeed(std::move(seeds), options, &simulator));
  SOAP_ASSIGN_OR_RETURN(const StaleIteration of_seed,
                        LeastFrom(found.strategy, options, &simulator));
  found.strategy.staleness = std::max<uint32_t>(1, of_seed.staleness);
  SOAP_RETURN_IF_ERROR(simulator.SetStrategy(found.strategy));
  StaleWalk walk(*problem.space, options, &simulator);
  SearchResult result = {.best_seed = walk.best()};
  walk.Run(options.proposals);
  found.strategy = walk.best_strategy();
  SOAP_ASSIGN_OR_RETURN(const StaleIteration of_walk,
                        LeastFrom(found.strategy, options, &simulator));
  found.strategy.staleness = of_walk.staleness;
  found.found = of_walk.found;
  // Both are worthy beside their own best; the lesser bound of those that are beside the other too.
  const Score& best = std::min(planned.found, found.found);
  bool is_plan = !(found.found < planned.found);
  if (IsWorthy(planned.found, best) && IsWorthy(found.found, best) &&
      of_plan.staleness != of_walk.staleness) {
    is_plan = of_plan.staleness < of_walk.staleness;
  }
  const StaleSeed& chosen = is_plan ? planned : found;
  result.strategy = chosen.strategy;
  result.found = chosen.found;
  if (!is_plan) {
    result.note = absl::StrFormat("the best step's plan takes %.3f ms under staleness %d",
                                  static_cast<double>(planned.found.step_ns) / 1e6,
                                  planned.strategy.staleness);
  }
  result.counts.proposed = walk.proposed();
  result.counts.simulated = walk.priced();
  return result;
}

}  // namespace soapstone::planner
