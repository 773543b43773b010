// LogOutput: standard error as the log of a daemon that never keeps its caller waiting
// (apps/loop/writer_thread.h).
// Who calls: the programs of nodes, once logging is set up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "apps/loop/writer_thread.h"
#include "base/ids.h"
#include "glog/logging.h"

namespace soapstone::apps {

// What each JSON line of a log begins with.
struct LogOrigin {
  std::string role;   // "server"
  int64_t rank = -1;  // -1: not known when the log began
  std::string host;
};

// {"time": ..., "severity": ..., "role": ..., "rank": ..., "host": ..., "place": "file.cc:12",
// "message": ...}, without a line's end. `unix_seconds` with its microseconds; bytes that are no
// UTF-8 are replaced.
std::string JsonLogLine(const LogOrigin& origin, const char* severity, const char* file, int line,
                        double unix_seconds, std::string_view message);

// While it lives, lines of the log go to a thread of its own instead of straight to standard error.
// Invariants: no line waits for a reader; the last words of a process that a LOG(FATAL) ends are
// waited for as those of any other, `linger` at most. Where nobody reads even these, standard error
// is /dev/null from then on, so that nothing else that is said waits at it for ever.
class LogOutput : public google::LogSink {
 public:
  static constexpr size_t kBytesMax = size_t{16} << 20;

  // `json`: the lines are JSON objects, of this origin; else glog's.
  explicit LogOutput(Nanos linger = 2 * kSecond, std::optional<LogOrigin> json = std::nullopt);
  ~LogOutput() override;
  LogOutput(const LogOutput&) = delete;
  LogOutput& operator=(const LogOutput&) = delete;

  void send(google::LogSeverity severity, const char* full_filename, const char* base_filename,
            int line, const google::LogMessageTime& time, const char* message,
            size_t message_len) override;
  void WaitTillSent() override;
  // Waits until all is written, `linger` at most. Nothing is written after that.
  void Finish();

 private:
  const Nanos linger_;
  const std::optional<LogOrigin> json_;
  const google::LogSeverity threshold_before_;
  const bool also_before_;
  WriterThread writer_;
};

}  // namespace soapstone::apps
