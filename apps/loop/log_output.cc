#include "apps/loop/log_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/plain_text.h"

namespace soapstone::apps {
namespace {

// Whether this thread is in the middle of its last line.
thread_local bool ends_process = false;

}  // namespace

std::string JsonLogLine(const LogOrigin& origin, const char* severity, const char* file, int line,
                        double unix_seconds, std::string_view message) {
  nlohmann::ordered_json json;
  json["time"] = absl::FormatTime(
      "%Y-%m-%dT%H:%M:%E6SZ", absl::UnixEpoch() + absl::Seconds(unix_seconds), absl::UTCTimeZone());
  json["severity"] = severity;
  json["role"] = origin.role;
  if (origin.rank >= 0) json["rank"] = origin.rank;
  json["host"] = origin.host;
  json["place"] = absl::StrCat(file, ":", line);
  json["message"] = message;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

LogOutput::LogOutput(Nanos linger, std::optional<LogOrigin> json)
    : linger_(linger),
      json_(std::move(json)),
      threshold_before_(FLAGS_stderrthreshold),
      also_before_(FLAGS_alsologtostderr),
      writer_(STDERR_FILENO,
              {.name = "standard error", .bytes_max = kBytesMax, .notes_loss = true}) {
  FLAGS_alsologtostderr = false;
  FLAGS_stderrthreshold = google::NUM_SEVERITIES;
  google::AddLogSink(this);
}

LogOutput::~LogOutput() {
  google::RemoveLogSink(this);
  Finish();
  FLAGS_stderrthreshold = threshold_before_;
  FLAGS_alsologtostderr = also_before_;
}

// NOLINTNEXTLINE(readability-function-size): as the base's
void LogOutput::send(google::LogSeverity severity, const char* /*full_filename*/,
                     const char* base_filename, int line, const google::LogMessageTime& time,
                     const char* message, size_t message_len) {
  const std::string words = PlainLines({message, message_len});  // of others, many
  std::string text =
      json_.has_value()
          ? JsonLogLine(*json_, google::GetLogSeverityName(severity), base_filename, line,
                        static_cast<double>(time.timestamp()) + time.usec() / 1e6, words)
          : ToString(severity, base_filename, line, time, words.data(), words.size());
  text.push_back('\n');
  writer_.Put(std::move(text));
  ends_process = severity == google::GLOG_FATAL;
}

void LogOutput::WaitTillSent() {
  if (ends_process) Finish();
}

void LogOutput::Finish() {
  if (!absl::IsDeadlineExceeded(writer_.Finish(linger_))) return;
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  dup2(nowhere, STDERR_FILENO);
  close(nowhere);
}

}  // namespace soapstone::apps
