// EventFile: a thread's ring of events (ring.h) in a file of the timeline's folder, mapped into
// memory: an event costs a copy, and what was written is there when the process is killed.
// Who calls: the shells of workers and servers, one file a thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "observe/timeline/clock_range.h"
#include "observe/timeline/event_file_format.h"
#include "observe/timeline/ring.h"

namespace soapstone::timeline {

struct EventFileOptions {
  std::string folder;  // is made where there is none
  ThreadKind kind{};
  uint32_t index = 0;
  uint64_t session = 0;
  ClockRange clocks;               // of which events are kept
  std::vector<std::string> names;  // of operators
  uint64_t capacity = kCapacity;
};

// One thread writes. While it lives its file is locked, by which a reader sees that more may come.
class EventFile {
 public:
  // A second process of one rank gets a file of its own; one of another job takes the place of what
  // an earlier job left, which is not touched where it is still written. Its room on the disk is
  // taken here. Error: InvalidArgument, one line.
  static absl::StatusOr<std::unique_ptr<EventFile>> Make(const EventFileOptions& options);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Of a clock that is not kept: nothing.
  void Write(const Event& event) {
    if (clocks_.Has(event.clock)) ring_.Write(event);
  }

 private:
  EventFile(int fd, std::byte* map, size_t bytes, const EventFileOptions& options);

  int fd_;
  std::byte* map_;
  size_t bytes_;
  ClockRange clocks_;
  Ring ring_;
};

// A number of this machine since it was started, and its name.
uint64_t ThisMachine();
std::string ThisHost();

}  // namespace soapstone::timeline
