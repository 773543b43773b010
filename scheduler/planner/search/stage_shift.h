// Boundaries between the stages of a pipeline, and what moves across them. Used by the walk's
// proposals and by descents. Knows no costs.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/planner/search/space.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {

inline constexpr uint32_t kStageShiftMax = 4;  // groups that searches move at once

// Weight groups in the graph's order: where the first operator of one and that of the group before
// it are on unlike lists of devices.
bool IsStageBoundary(const OpGraph& graph, const Simulator& now, uint32_t group);

struct StageShift {
  uint32_t boundary = 1;  // in front of this group, from 1 to the last
  bool later = false;     // groups behind the boundary join those before it; else the other way
  uint32_t groups = 1;    // so many, or as many as there are
};

// The groups next to a boundary take the degrees and devices of the group on the other side of it,
// in all their micro-batches and chunks; operators that these degrees do not suit are split by
// samples. What is as it was is no change. Even splits.
void ShiftStage(const Space& space, const Simulator& now, const StageShift& shift,
                std::vector<Change>* changes);

}  // namespace soapstone::planner
