// Descents: from a strategy to one that no change of a kind improves. The walk begins with one over
// parameter groups, and ends with one over operators, which certifies what it found.
#pragma once

#include "scheduler/planner/search/space.h"
#include "scheduler/planner/simulator/simulator.h"
#include "scheduler/planner/simulator/trials.h"

namespace soapstone::planner {

struct DescentLimits {
  TrialLimits trials;
  bool servers = true;  // where several synchronize, others may keep a parameter group
};

// Improves the simulator's strategy by changes of one operator to any of Space::Configs until none
// does, or a limit is reached. Whether it came to the end. Where several servers synchronize, so
// does who keeps a parameter group, all else as it is: all of them, those of its nodes, up to 16
// devices any single one; or of all groups together all of them, those of their nodes, or one each.
bool DescendByOperator(const Space& space, const DescentLimits& limits, Simulator* simulator);

// As DescendByOperator, but all operators of a parameter group at once, each with the degrees and
// devices that suit the group's first: a layer's gradients need no synchronization only when all of
// its chunks of time move together. Who keeps a group stays as it is.
bool DescendByGroup(const Space& space, const DescentLimits& limits, Simulator* simulator);

// By nothing but who keeps the parameter groups, and no single servers among it: for a plan that
// was made without. each: one group by itself, too, not only all of them together.
bool DescendByServers(const Space& space, const DescentLimits& limits, bool each,
                      Simulator* simulator);

// Of a pipeline: groups next to the boundaries between stages change sides, up to four at once
// (stage_shift.h), until none of them does better.
bool DescendByStage(const Space& space, const DescentLimits& limits, Simulator* simulator);

}  // namespace soapstone::planner
