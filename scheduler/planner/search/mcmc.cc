#include "scheduler/planner/search/mcmc.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>
#include <utility>

#include "base/fingerprint.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "scheduler/planner/search/coordinate_descent.h"
#include "scheduler/planner/search/proposals.h"

namespace soapstone::planner {
namespace {

constexpr uint64_t kRounds = 20;  // after each of which chains may exchange
constexpr double kLadder = 3;

// Sets the simulator. DeadlineExceeded: given up.
absl::StatusOr<Score> ScoreOf(const Strategy& strategy, const std::function<bool()>& give_up,
                              Simulator* simulator) {
  SOAP_RETURN_IF_ERROR(simulator->SetStrategy(strategy, give_up));
  SOAP_ASSIGN_OR_RETURN(const Nanos step, simulator->StepTimeUnless(give_up));
  return Score{step, simulator->Overflow()};
}

// One walk with its own simulator.
class Chain {
 public:
  Chain(const Space* space, const CostModel* costs, const SearchOptions& options, uint32_t index)
      : options_(options),
        moves_(space),
        random_(options.seed, index),
        simulator_(&space->graph(), &space->machine(), costs, options.simulator),
        ladder_(std::pow(kLadder, -static_cast<double>(index))) {
    simulator_.set_early_rejection(options.early_rejection);
  }

  absl::Status Start(const Strategy& seed, const std::function<bool()>& give_up) {
    SOAP_ASSIGN_OR_RETURN(now_, ScoreOf(seed, give_up, &simulator_));
    Keep();
    return absl::OkStatus();
  }

  // Proposals `begin` to `end` of the options' number; scale: t₀.
  void Walk(uint64_t begin, uint64_t end, Nanos scale) {
    const uint64_t unasked = ProposalsUnasked(simulator_);
    for (uint64_t i = begin; i < end && !stopped_; ++i) {
      if (options_.stop && i % unasked == 0) stopped_ = options_.stop();
      const double done = static_cast<double>(i) / static_cast<double>(options_.proposals);
      Step(static_cast<double>(scale) / BetaAt(done));
    }
  }

  double BetaAt(double done) const {
    return ladder_ * options_.beta_first * std::pow(options_.beta_last / options_.beta_first, done);
  }

  const Score& now() const { return now_; }
  const Score& best() const { return best_; }
  const Strategy& best_strategy() const { return best_strategy_; }
  Simulator& simulator() { return simulator_; }
  RandomSource& random() { return random_; }
  bool stopped() const { return stopped_; }
  uint64_t accepted() const { return accepted_; }
  uint64_t digest() const { return digest_.value().first; }

 private:
  // Metropolis with the draw first: u uniform in (0, 1], a proposal of time t is taken where
  // u ≤ exp(−(t − now)/T), which is t ≤ now − T·ln u: the cutoff.
  void Step(double temperature) {
    const absl::Span<const Change> changes = moves_.Draw(simulator_, &random_);
    const double over = -temperature * std::log(random_.Uniform());
    if (changes.empty() && moves_.servers().empty()) return;
    const double cutoff = static_cast<double>(now_.step_ns) + over;
    const Nanos time = simulator_.Propose(
        changes, cutoff < 9e18 ? static_cast<Nanos>(cutoff) : kNever - 1, moves_.servers());
    if (time == kNever) return simulator_.Reject();
    simulator_.Accept();
    ++accepted_;
    digest_.Add(time);
    now_ = {time, simulator_.Overflow()};
    if (now_ < best_) Keep();
  }

  void Keep() {
    best_ = now_;
    best_strategy_ = simulator_.strategy();
  }

  const SearchOptions& options_;
  ProposalGenerator moves_;
  RandomSource random_;
  Simulator simulator_;
  const double ladder_;
  Score now_, best_;
  Strategy best_strategy_;
  uint64_t accepted_ = 0;
  Fingerprint digest_;
  bool stopped_ = false;
};

// Replica exchange between neighbours: strategies change places with probability
// min(1, exp((β_a − β_b)·(E_a − E_b)/t₀)).
void Exchange(std::vector<std::unique_ptr<Chain>>* chains, double done, Nanos scale,
              RandomSource* random) {
  for (size_t i = 0; i + 1 < chains->size(); ++i) {
    Chain& a = *(*chains)[i];
    Chain& b = *(*chains)[i + 1];
    const double u = random->Uniform();
    if (a.now().overflow_bytes != b.now().overflow_bytes) continue;
    const double energy =
        static_cast<double>(a.now().step_ns - b.now().step_ns) / static_cast<double>(scale);
    if (u > std::exp(std::min(0.0, (a.BetaAt(done) - b.BetaAt(done)) * energy))) continue;
    const Strategy of_a = a.simulator().strategy();
    CHECK(a.Start(b.simulator().strategy(), {}).ok());
    CHECK(b.Start(of_a, {}).ok());
  }
}

// All chains' proposals `begin` to `end`, on so many threads.
void WalkRound(std::vector<std::unique_ptr<Chain>>* chains, uint64_t begin, uint64_t end,
               Nanos scale, uint32_t threads_max) {
  const size_t threads = std::clamp<size_t>(threads_max, 1, chains->size());
  const auto walk = [&](size_t thread) {
    for (size_t i = thread; i < chains->size(); i += threads) (*chains)[i]->Walk(begin, end, scale);
  };
  std::vector<std::thread> others;
  for (size_t t = 1; t < threads; ++t) others.emplace_back(walk, t);
  walk(0);
  for (std::thread& thread : others) thread.join();
}

}  // namespace

absl::StatusOr<SearchResult> SearchByWalk(const Space& space, const CostModel& costs,
                                          absl::Span<const Strategy> seeds,
                                          const SearchOptions& options) {
  CHECK(!seeds.empty());
  std::vector<std::unique_ptr<Chain>> chains;
  for (uint32_t i = 0; i < std::max<uint32_t>(options.chains, 1); ++i) {
    chains.push_back(std::make_unique<Chain>(&space, &costs, options, i));
  }
  // The best seed for the first chain, the next for the second, and so on around.
  Simulator& first = chains[0]->simulator();
  std::vector<std::pair<Score, size_t>> order;
  for (size_t i = 0; i < seeds.size(); ++i) {
    SOAP_ASSIGN_OR_RETURN(const Score found, ScoreOf(seeds[i], options.give_up, &first));
    order.push_back({found, i});
  }
  std::sort(order.begin(), order.end());
  SearchResult result;
  result.best_seed = result.found = order[0].first;
  result.strategy = seeds[order[0].second];
  const Nanos scale = std::max<Nanos>(1, result.best_seed.step_ns);
  for (size_t i = 0; i < chains.size(); ++i) {
    SOAP_RETURN_IF_ERROR(chains[i]->Start(seeds[order[i % order.size()].second], options.give_up));
  }

  RandomSource random(options.seed, UINT32_MAX);
  const auto gather = [&] {
    for (const auto& chain : chains) {
      if (!(chain->best() < result.found)) continue;
      result.found = chain->best();
      result.strategy = chain->best_strategy();
    }
  };
  bool stopped = false;
  for (uint64_t round = 0; round < kRounds && !stopped; ++round) {
    const uint64_t begin = options.proposals * round / kRounds;
    const uint64_t end = options.proposals * (round + 1) / kRounds;
    WalkRound(&chains, begin, end, scale, options.threads);
    gather();
    for (const auto& chain : chains) stopped |= chain->stopped();
    if (options.progress) {
      options.progress({end * chains.size(), options.proposals * chains.size(), result.found});
    }
    const double done = static_cast<double>(end) / static_cast<double>(options.proposals);
    if (!stopped) Exchange(&chains, done, scale, &random);
  }
  Fingerprint digest;
  for (const auto& chain : chains) {
    result.accepted += chain->accepted();
    result.counts += chain->simulator().counts();
    digest.Add(chain->digest());
  }
  result.chain_digest = digest.value().first;
  if (options.descend && !stopped) {
    SOAP_RETURN_IF_ERROR(first.SetStrategy(result.strategy));
    first.set_early_rejection(true);
    first.StepTime();
    result.locally_optimal = DescendByOperator(
        space, {.trials = {.stop = options.stop, .threads = options.threads}}, &first);
    result.found = {first.StepTime(), first.Overflow()};
    result.strategy = first.strategy();
  }
  return result;
}

}  // namespace soapstone::planner
