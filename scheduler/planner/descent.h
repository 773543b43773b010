// Descents: from a strategy to one that no change of a kind improves. The walk begins with one over
// weight groups, and ends with one over operators, which certifies what it found.
#pragma once

#include <cstdint>
#include <functional>

#include "scheduler/planner/simulator.h"
#include "scheduler/planner/space.h"

namespace soapstone::planner {

struct DescentLimits {
  uint64_t proposals = UINT64_MAX;
  std::function<bool()> stop;  // asked every few proposals; may be empty
};

// Between two looks at the clock: as many as simulate some 10⁵ tasks, and a few hundred at most.
uint64_t ProposalsUnasked(const Simulator& simulator);

// Improves the simulator's strategy by changes of one operator to any of Space::Configs until none
// does, or a limit is reached. Whether it came to the end.
bool DescendByOperator(const Space& space, const DescentLimits& limits, Simulator* simulator);

// As DescendByOperator, but all operators of a weight group at once, each with the degrees and
// devices that suit the group's first: a layer's gradients need no synchronization only when all of
// its chunks of time move together.
bool DescendByGroup(const Space& space, const DescentLimits& limits, Simulator* simulator);

}  // namespace soapstone::planner
