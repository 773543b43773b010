// A quick way down for large graphs: what makes one operator better is tried at once on all of its
// kind. A network has hundreds of operators, each of hundreds of configurations, but few kinds, and
// operators of a kind gain by few ways of splitting. The walk begins behind it; so does the descent
// that certifies (coordinate_descent.h), which tries all configurations.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/planner/search/space.h"
#include "scheduler/planner/simulator/simulator.h"
#include "scheduler/planner/simulator/trials.h"

namespace soapstone::planner {

// Operators that do one thing and are split along as many dimensions are a kind. It knows the
// configurations that its operators have. Next to a configuration are those in which a factor of
// one degree has moved to another, on the same devices: n/64, n/32 c/2, n/16 c/4 and so on. What is
// next to a known one is tried on a few of the kind, spread over the graph; where it makes the step
// shorter it is kept, tried on all others, and known. Then all that is known is tried on all, until
// nothing is shorter: each operator chooses for itself. Kind after kind, the largest first, again
// and again until none improves; the last round looks two moves of a factor far.
//
// Improves the simulator's strategy until nothing of this does, or a limit is reached. Whether it
// came to the end. Deterministic but for `limits.stop`.
bool ClimbByOperator(const Space& space, const TrialLimits& limits, Simulator* simulator);

// As ClimbByOperator, but all operators of a parameter group at once, each with the degrees and
// devices of the group's first.
bool ClimbByGroup(const Space& space, const TrialLimits& limits, Simulator* simulator);

// Those up to `reach` moves of a factor away from a configuration, itself first, near ones before
// far ones; legal or not. REQUIRES no cuts.
std::vector<OpConfig> ConfigsNear(OpConfig config, uint32_t reach);

}  // namespace soapstone::planner
