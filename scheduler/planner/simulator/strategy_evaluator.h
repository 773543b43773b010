// What strategies cost: a simulator, and the prices that are known already. The one way in which
// searchers, baselines and reports choose among the ways to synchronize.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {

// The least step time so far, where memory holds; before any does, the least overflow. As it is
// made: worse than all that is priced.
struct Score {
  Nanos step_ns = kNever;
  int64_t overflow_bytes = INT64_MAX;
  friend bool operator<(const Score& a, const Score& b) {
    return a.overflow_bytes != b.overflow_bytes ? a.overflow_bytes < b.overflow_bytes
                                                : a.step_ns < b.step_ns;
  }
  bool priced() const { return overflow_bytes != INT64_MAX; }
};

// The ways to synchronize that a machine has: servers only where there are some.
std::vector<Synchronization> SynchronizationsOf(const Machine& machine);

// Of one graph, machine, cost model and options: of each strategy and way to synchronize once, for
// all who share it. It keeps the strategies: for seeds and results, not for proposals.
// Threading: from several threads at once.
class CostCache {
 public:
  std::optional<Score> Find(const Strategy& strategy) const;
  void Add(const Strategy& strategy, const Score& found);

 private:
  struct Hash {
    size_t operator()(const Strategy& strategy) const;
  };
  mutable Mutex mutex_;
  absl::flat_hash_map<Strategy, Score, Hash> prices_ ABSL_GUARDED_BY(mutex_);
};

struct SearchProblem;

// Not to be shared between threads.
class StrategyEvaluator {
 public:
  // Keeps the pointers. ways: among which PriceBest chooses; none: all that the machine has.
  // list: of prices; nullptr: its own.
  StrategyEvaluator(const OpGraph* graph, const Machine* machine, const CostModel* costs,
                    const SimulatorOptions& options = {}, std::vector<Synchronization> ways = {},
                    CostCache* list = nullptr);
  StrategyEvaluator(const SearchProblem& problem, const SimulatorOptions& options);
  // Asked while a strategy is priced, which may take longer than a search has. Empty: never.
  void set_give_up(std::function<bool()> give_up) { give_up_ = std::move(give_up); }
  // Sets the simulator to the strategy. The iteration's time: the step's where there is no
  // staleness. Errors: as of CheckStrategy; DeadlineExceeded: given up, and no strategy is set.
  absl::StatusOr<Score> Price(const Strategy& strategy);
  // As Price, from the list if it is there, else into it; the simulator may be set to anything, or
  // to none. One that is given up stays in the list as not priced, so that nobody tries it again.
  absl::StatusOr<Score> Look(const Strategy& strategy);
  // With the synchronization that is best, which is put into the strategy; of equals the first of
  // `ways`. By Look.
  absl::StatusOr<Score> PriceBest(Strategy* strategy);
  Simulator& simulator() { return simulator_; }
  // Strategies priced, and what the simulator was proposed.
  ProposalCounts counts() const;

 private:
  std::vector<Synchronization> ways_;
  Simulator simulator_;
  CostCache own_;
  CostCache* const list_;
  std::function<bool()> give_up_;
  uint64_t priced_ = 0;
};

}  // namespace soapstone::planner
