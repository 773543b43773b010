// Grids of settings: where the chosen candidate lies in its grid, and which grids are one. Who
// calls: rules 12 and 14 of honesty.h, and the report.
#pragma once

#include <cstddef>
#include <vector>

#include "experiment/spec.h"

namespace soapstone::experiment {

// Whether a better learning rate may lie where the grid has none: of the candidates that differ
// from this one in the rate alone, none has a rate 1.25 to 10 times smaller, or none one 1.25 to 10
// times greater. False where nothing is tuned. REQUIRES: candidate is one of
// the grid's.
bool AtEdge(const Grid& grid, size_t candidate);

// The candidates of a tuning, where it has none the job's own settings. Error: a rate that is not
// above 0, an optimizer that is none, one that is tried twice; the spec knows the place.
absl::StatusOr<std::vector<Settings>> CandidatesOf(const Tuning& tuning,
                                                   const wire::Training& training);

// The same candidates, in any order, and the same seeds.
bool SameGrid(const Grid& a, const Grid& b);

}  // namespace soapstone::experiment
