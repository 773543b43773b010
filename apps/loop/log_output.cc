#include "apps/loop/log_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

namespace soapstone::apps {
namespace {

// Whether this thread is in the middle of its last line.
thread_local bool ends_process = false;

}  // namespace

LogOutput::LogOutput(Nanos linger)
    : linger_(linger),
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
  writer_.Put(ToString(severity, base_filename, line, time, message, message_len) + "\n");
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
