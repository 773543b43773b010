// OutputThread: standard output that never keeps its caller waiting. A pipe that nobody reads, a
// pager that is not paged on or a terminal that is stopped would else stop the loop that writes a
// line of progress, and with it heartbeats and signals.
// Who calls: the programs, around a command that has a loop.
#pragma once

#include <cstddef>
#include <memory>
#include <ostream>
#include <streambuf>
#include <string>

#include "absl/status/status.h"
#include "base/ids.h"

namespace soapstone::apps {

struct OutputThreadOptions {
  size_t bytes_max = size_t{64} << 20;  // that wait; the oldest are dropped for new ones
  Nanos linger = 2 * kSecond;           // that the destructor waits for who reads
};

// In the place of a stream's buffer: what is flushed goes to a thread, which writes it to a
// descriptor. Invariants: a flush and a write take no longer than a copy; what is dropped is whole
// flushes, the oldest first, and never the last, however large it is (but of more than bytes_max
// without a flush, pieces); the thread blocks every signal.
// One thread writes to the stream. `stream` outlives this and has its own buffer again afterwards;
// the descriptor stays open.
class OutputThread : public std::streambuf {
 public:
  OutputThread(std::ostream* stream, int fd, OutputThreadOptions options = {});
  // As Finish(options.linger), whatever comes of it.
  ~OutputThread() override;
  OutputThread(const OutputThread&) = delete;
  OutputThread& operator=(const OutputThread&) = delete;

  // Gives the stream its buffer back and waits until all is written, at most so long.
  // Errors: Unavailable, what the system says of a write that failed, but where a reader has gone,
  // as `head` does; DeadlineExceeded, nobody has read the end.
  absl::Status Finish(Nanos linger);

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  struct Queue;  // shared with the thread, which may outlive this

  std::ostream* const stream_;
  std::streambuf* const before_;
  const OutputThreadOptions options_;
  std::string line_;  // not flushed yet
  const std::shared_ptr<Queue> queue_;
};

}  // namespace soapstone::apps
