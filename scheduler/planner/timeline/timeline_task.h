// A TimelineTask is what a timeline says of a task, for reports and tests. Values.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace soapstone::planner {

// Longer than any step.
inline constexpr Nanos kNever = INT64_MAX;

enum class TaskKind : uint8_t { kForward, kBackward, kTransfer, kGradient, kSynchronize };

// What a task of the timeline does to one queue. Of kForward and kBackward: operator and part; of
// kTransfer and kGradient: edge (the first between its operators) and task; of kSynchronize: group
// and task.
struct TimelineTask {
  TaskKind kind = TaskKind::kForward;
  uint32_t of = 0, index = 0;
  uint32_t resource = 0;
  Nanos ready = 0, start = 0, end = 0;
  friend bool operator==(const TimelineTask&, const TimelineTask&) = default;
};

}  // namespace soapstone::planner
