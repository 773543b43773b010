// Search by random walk (FlexFlow section 6: Metropolis over strategies), annealed and tempered,
// and a descent that certifies what it ends with. Anytime: asks the caller whether to stop.
// The searcher `mcmc` (annealing_searcher.h) calls it. Reads no clock.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scheduler/planner/search/searcher.h"
#include "scheduler/planner/search/space.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {

// Never worse than the best of `seeds`, of which there is at least one. Errors: InvalidArgument: a
// seed is no strategy for the space's graph and machine.
absl::StatusOr<SearchResult> SearchByWalk(const Space& space, const CostModel& costs,
                                          absl::Span<const Strategy> seeds,
                                          const SearchOptions& options);

}  // namespace soapstone::planner
