// Plans whose iterations overlap: the strategy and its staleness bound, chosen together. Called by
// `soapstone plan --staleness` behind a search at staleness 0. Reads no clock.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scheduler/planner/search/searcher.h"

namespace soapstone::planner {

// Staleness costs progress: the bound that is planned is the least that comes so near to the best.
inline constexpr double kStalenessWorth = 0.02;  // of an iteration

// What a strategy's iterations take under a bound.
struct StaleIteration {
  uint32_t staleness = 0;
  Score found;
};

// Of those that fit the least staleness within kStalenessWorth of the best; the first where none
// fits. REQUIRES: there is one, in the order of staleness.
const StaleIteration& LeastWorthy(absl::Span<const StaleIteration> of);

// Begins at the strategy that iterates fastest under a staleness of 1 to `staleness_max` among
// `plan` (what a search of single steps found), data parallelism, stages by PipeDream
// (pipedream.h) and blocks of stages (replicated_stages.h), each with the synchronization that
// suits it best, and walks from there by proposals (proposals.h), stages' boundaries among them,
// on Simulator::IterationTime under the least worthy bound of that strategy. Proposals are first
// simulated as a step: an iteration takes no less than its busiest queue is busy, and s + 1 of them
// that overlap no less than a step does but for the order in which devices serve them, so that most
// are rejected without the many iterations that IterationTime runs.
// The result has the staleness that is least worthy among `plan` and what was found, so it is
// `plan` with its own best bound where that is as good; else `note` says what that takes. Its
// `found` is of an iteration. In a time too short for some iterations it is `plan` as it is, and
// `note` says so. Errors: as of CheckStrategy. REQUIRES staleness_max > 0.
absl::StatusOr<SearchResult> SearchStaleness(const SearchProblem& problem, const Strategy& plan,
                                             uint32_t staleness_max, const SearchOptions& options);

}  // namespace soapstone::planner
