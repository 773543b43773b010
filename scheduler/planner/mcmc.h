// Search by random walk (FlexFlow section 6: Metropolis over strategies), annealed and tempered,
// and a descent that certifies what it ends with. Anytime: asks the caller whether to stop.
// Called by `soapstone plan` and by comparisons of searchers. Reads no clock.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scheduler/planner/simulator.h"
#include "scheduler/planner/space.h"

namespace soapstone::planner {

// The least step time so far, where memory holds; before any does, the least overflow.
struct Found {
  Nanos step_ns = kNever;
  int64_t overflow_bytes = INT64_MAX;
  friend bool operator<(const Found& a, const Found& b) {
    return a.overflow_bytes != b.overflow_bytes ? a.overflow_bytes < b.overflow_bytes
                                                : a.step_ns < b.step_ns;
  }
};

struct SearchProgress {
  uint64_t proposals = 0, proposals_max = 0;  // of all chains
  Found best;
};

struct SearchOptions {
  uint64_t seed = 1;
  uint64_t proposals = 100'000;  // of each chain
  // Chains at rising temperatures, which exchange their strategies now and then; on so many
  // threads. The result is a function of seed, proposals and chains.
  uint32_t chains = 2, threads = 1;
  // Inverse temperatures of the coldest chain, first and last, over the best seed's step time t₀:
  // a step longer by x·t₀ is taken with probability exp(−β·x). Each further chain has a third.
  double beta_first = 50, beta_last = 50'000;
  bool early_rejection = true;
  bool descend = true;  // to a strategy that no change of one operator improves
  SimulatorOptions simulator;
  std::function<bool()> stop;  // asked every few hundred proposals, also from threads; may be empty
  std::function<void(const SearchProgress&)> progress;  // by rounds; may be empty
};

struct SearchResult {
  Strategy strategy;
  Found found;
  Found best_seed;
  bool locally_optimal = false;  // no configuration of Space::Configs of one operator is better
  uint64_t accepted = 0;
  ProposalCounts counts;
  uint64_t chain_digest = 0;  // of all accepted step times, in order
};

// Never worse than the best of `seeds`, of which there is at least one. Errors: InvalidArgument: a
// seed is no strategy for the space's graph and machine.
absl::StatusOr<SearchResult> SearchByWalk(const Space& space, const CostModel& costs,
                                          absl::Span<const Strategy> seeds,
                                          const SearchOptions& options);

// Improves the simulator's strategy by changes of one operator to any of Space::Configs until none
// does or `stop` says so. Whether it came to the end.
bool DescendByCoordinate(const Space& space, const std::function<bool()>& stop,
                         Simulator* simulator);

}  // namespace soapstone::planner
