#include "apps/node/event_reports.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "apps/report/event_file.h"
#include "base/exit_codes.h"

namespace soapstone::apps {
namespace {

constexpr size_t kBytesMax = size_t{1} << 20;  // that wait for the disk
constexpr Nanos kLinger = 2 * kSecond;

double WallSeconds() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

absl::Status CannotMake(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("output.tensorboard_path: cannot make ", path, ": ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventReports>> EventReports::Open(const std::string& folder,
                                                                 std::function<double(Clock)> rate,
                                                                 Clock clocks, ReportSink* next) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return CannotMake(folder, error.message());
  char host[HOST_NAME_MAX + 1] = "";
  gethostname(host, sizeof(host) - 1);
  std::string path =
      absl::StrCat(folder, "/", EventFileName(absl::ToUnixSeconds(absl::Now()), host, getpid()));
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return CannotMake(path, std::strerror(errno));
  return std::unique_ptr<EventReports>(
      new EventReports(fd, std::move(path), std::move(rate), clocks, next));
}

EventReports::EventReports(int fd, std::string path, std::function<double(Clock)> rate,
                           Clock clocks, ReportSink* next)
    : fd_(fd),
      path_(std::move(path)),
      rate_(std::move(rate)),
      clocks_(clocks),
      next_(*next),
      writer_(fd, {.name = path_, .bytes_max = kBytesMax}) {
  writer_.Put(EventFileHeader(WallSeconds()));
}

EventReports::~EventReports() {
  const absl::Status written = writer_.Finish(kLinger);
  LOG_IF(ERROR, !written.ok()) << written.message() << ": TensorBoard has less than there was";
  if (!absl::IsDeadlineExceeded(written)) close(fd_);  // else its thread still writes there
}

void EventReports::Take(const Report& report) {
  next_.Take(report);
  ScalarEvent event = {.wall_time_s = WallSeconds()};
  if (const auto* progress = std::get_if<ProgressReport>(&report)) {
    if (progress->clock <= last_) return;
    event.step = last_ = progress->clock;
    event.values = {{"train/loss", progress->loss},
                    {"train/learning_rate", rate_(progress->clock)},
                    {"rate/samples_per_s", progress->samples_per_s},
                    {"reads/lag_mean", progress->lag_mean},
                    {"reads/lag_max", static_cast<double>(progress->lag_max)},
                    {"job/workers", static_cast<double>(progress->workers)}};
  } else if (const auto* result = std::get_if<ResultReport>(&report)) {
    if (result->code != kExitOk) return;
    event.step = clocks_;
    event.values = {{"train/loss", result->train_loss},
                    {"rate/samples_per_s", result->samples_per_s}};
    if (result->test_samples > 0) {
      event.values.emplace_back("held_out/loss", result->test_loss);
      event.values.emplace_back("held_out/accuracy", result->test_accuracy);
    }
  } else {
    return;
  }
  writer_.Put(EventRecord(event));
}

}  // namespace soapstone::apps
