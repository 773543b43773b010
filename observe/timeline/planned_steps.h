// Where what was planned of a step stands in the picture beside what was measured of it. A value
// from events (ThreadKind::kPlanned).
#pragma once

#include <cstddef>
#include <vector>

#include "base/ids.h"
#include "observe/timeline/clock_range.h"
#include "observe/timeline/machine_clocks.h"
#include "observe/timeline/read_events.h"

namespace soapstone::timeline {

struct PlannedSlice {
  size_t thread = 0;            // of the threads, a planned one
  const Event* half = nullptr;  // of it
  Clock clock = 0;
  Nanos begin = 0, end = 0;  // by the clock of the first machine
};

// For each clock of `clocks` that some worker of a team has made a step of, what each of its seats
// was to do. It begins with the team's first forward half of the clock, and an iteration behind the
// clock before at least: so steps that took longer than planned have a gap behind what was planned,
// and where they took less that falls behind. Of a seat none begins before the one before has
// ended; what has no time left is not there. By thread, then time.
std::vector<PlannedSlice> PlaceSteps(const std::vector<ThreadEvents>& threads,
                                     const ClockRange& clocks, const MachineClocks& machines);

}  // namespace soapstone::timeline
