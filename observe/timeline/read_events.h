// Reads the event files of a timeline's folder, also those that are being written. They are what
// other processes wrote: a file that is damaged is named and left aside.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "observe/timeline/clock_range.h"
#include "observe/timeline/event_file_format.h"
#include "observe/timeline/ring.h"

namespace soapstone::timeline {

// What a thread did.
struct ThreadEvents {
  ThreadKind kind{};
  uint32_t index = 0;
  uint64_t session = 0;
  uint64_t machine = 0;
  std::string host;
  std::vector<std::string> names;
  std::vector<Event> events;  // of the clocks asked for, as written; what makes no sense is dropped
  Clock latest = kNoClock;    // of any event
  uint64_t lost = 0;          // older ones, whose slots were needed
  bool written = false;       // its process still writes it
};

// Error: InvalidArgument, one line: no such file, or it is damaged.
absl::StatusOr<ThreadEvents> ReadEventFile(const std::string& path, const ClockRange& clocks = {});

struct FolderEvents {
  std::vector<ThreadEvents> threads;  // of the job that wrote last, by file
  std::vector<std::string> notes;     // what was left aside, a line each
};
// Error: InvalidArgument, one line: no such folder, or no events in it.
absl::StatusOr<FolderEvents> ReadFolder(const std::string& folder, const ClockRange& clocks = {});

}  // namespace soapstone::timeline
