// LogOutput: standard error as the log of a daemon that never keeps its caller waiting
// (apps/loop/writer_thread.h).
// Who calls: the programs of nodes, once logging is set up.
#pragma once

#include <cstddef>

#include "apps/loop/writer_thread.h"
#include "base/ids.h"
#include "glog/logging.h"

namespace soapstone::apps {

// While it lives, lines of the log go to a thread of its own instead of straight to standard error.
// Invariants: no line waits for a reader; the last words of a process that a LOG(FATAL) ends are
// waited for as those of any other, `linger` at most. Where nobody reads even these, standard error
// is /dev/null from then on, so that nothing else that is said waits at it for ever.
class LogOutput : public google::LogSink {
 public:
  static constexpr size_t kBytesMax = size_t{16} << 20;

  explicit LogOutput(Nanos linger = 2 * kSecond);
  ~LogOutput() override;
  LogOutput(const LogOutput&) = delete;
  LogOutput& operator=(const LogOutput&) = delete;

  void send(google::LogSeverity severity, const char* full_filename, const char* base_filename,
            int line, const google::LogMessageTime& time, const char* message,
            size_t message_len) override;
  void WaitTillSent() override;

 private:
  void Finish();

  const Nanos linger_;
  const google::LogSeverity threshold_before_;
  const bool also_before_;
  WriterThread writer_;
};

}  // namespace soapstone::apps
