// WriterThread: a thread that writes texts to a descriptor, so that nobody waits for who reads. A
// pipe that nobody reads, a pager that is not paged on or a terminal that is stopped would else
// stop the loop that says something, and with it heartbeats and signals. Who calls: OutputThread
// (standard output) and LogOutput (standard error).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/ids.h"

namespace soapstone::apps {

struct WriterOptions {
  std::string name;         // of the descriptor, for errors
  size_t bytes_max = 0;     // that wait
  bool notes_loss = false;  // where texts could not be written, or were dropped, a line says so
};

// Thread-safe. Invariants: Put takes no longer than a copy; what is dropped is whole texts, the
// oldest first, and never the last, however large it is; a text that cannot be written keeps none
// after it from being tried; the thread blocks every signal. The descriptor must stay open: the
// thread outlives this where nobody reads.
class WriterThread {
 public:
  WriterThread(int fd, WriterOptions options);
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  void Put(std::string text);
  // The last: waits until all is written, at most so long. Errors: Unavailable, what the system
  // says of a write that failed, but where a reader has gone, as `head` does; DeadlineExceeded,
  // nobody has read the end.
  absl::Status Finish(Nanos linger);

 private:
  struct Queue;  // shared with the thread

  const std::string name_;
  const std::shared_ptr<Queue> queue_;
};

}  // namespace soapstone::apps
