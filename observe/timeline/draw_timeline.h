// A job's timeline as a picture (trace_writer.h): a process a worker and a shard; steps, operators,
// pushes, pulls and what they waited for, applies, and arrows from each push to its apply. Of a
// split model, halves of parts, arrows of the blocks between seats, and what was planned of each
// step. A value from events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "observe/timeline/clock_range.h"
#include "observe/timeline/read_events.h"
#include "observe/timeline/trace_writer.h"

namespace soapstone::timeline {

struct Timeline {
  std::string text;                // whole JSON
  uint64_t workers = 0;            // that have a step in it
  uint64_t steps = 0;              // in it, each once
  uint64_t pushes = 0;             // of its clocks
  uint64_t flows = 0;              // of these, with an arrow to what became of them
  uint64_t blocks = 0;             // that seats gave one another
  uint64_t block_flows = 0;        // of these, with an arrow to where they were taken
  uint64_t lost = 0;               // events whose room was needed for later ones, of all clocks
  uint64_t left_out = 0;           // that had no place in the file
  std::vector<std::string> notes;  // what is missing, a line each
};

// The clocks of `clocks`, in a text of at most `bytes_max`. Steps and flows come first, so that of
// what has no room they are the last to go.
Timeline DrawTimeline(const std::vector<ThreadEvents>& threads, const ClockRange& clocks,
                      size_t bytes_max = TraceWriter::kBytesMax);

}  // namespace soapstone::timeline
