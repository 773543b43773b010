// OutputThread: standard output that never keeps its caller waiting (apps/loop/writer_thread.h).
// Who calls: the programs, around a command that has a loop.
#pragma once

#include <cstddef>
#include <ostream>
#include <streambuf>
#include <string>

#include "absl/status/status.h"
#include "apps/loop/writer_thread.h"
#include "base/ids.h"

namespace soapstone::apps {

struct OutputThreadOptions {
  size_t bytes_max = size_t{64} << 20;  // that wait; the oldest are dropped for new ones
  Nanos linger = 2 * kSecond;           // that the destructor waits for who reads
};

// In the place of a stream's buffer: what is flushed is one text of a WriterThread's (but of more
// than bytes_max without a flush, pieces).
// One thread writes to the stream. `stream` outlives this and has its own buffer again afterwards;
// the descriptor stays open.
class OutputThread : public std::streambuf {
 public:
  OutputThread(std::ostream* stream, int fd, OutputThreadOptions options = {});
  // As Finish(options.linger), whatever comes of it.
  ~OutputThread() override;
  OutputThread(const OutputThread&) = delete;
  OutputThread& operator=(const OutputThread&) = delete;

  // Gives the stream its buffer back, and is WriterThread::Finish.
  absl::Status Finish(Nanos linger);

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  std::ostream* const stream_;
  std::streambuf* const before_;
  const OutputThreadOptions options_;
  std::string line_;  // not flushed yet
  WriterThread writer_;
};

}  // namespace soapstone::apps
