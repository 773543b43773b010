#include "cluster/iteration_trace.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files/whole_file.h"
#include "base/status_macros.h"

namespace soapstone::apps {
namespace {

constexpr char kHeader[] = "worker,clock,compute_us,injected_us,blocked_us,end_us\n";

absl::Status CannotWriteTrace(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat("output.trace_path: cannot write ", path, ": ", std::strerror(errno)));
}

double Micros(Nanos duration) { return static_cast<double>(duration) / 1000; }

}  // namespace

std::string TracePart(const std::string& path, WorkerId worker) {
  return absl::StrCat(path, ".worker-", Index(worker));
}

absl::StatusOr<std::unique_ptr<IterationTrace>> IterationTrace::Open(const std::string& path,
                                                                     WorkerId worker) {
  const std::string part = TracePart(path, worker);
  std::ofstream file(part);
  file << kHeader << std::flush;
  if (!file) return CannotWriteTrace(part);
  return std::unique_ptr<IterationTrace>(new IterationTrace(std::move(file), worker));
}

void IterationTrace::Take(Nanos now, const wire::Progress& progress) {
  if (progress.clock == last_.clock) return;
  file_ << absl::StrFormat("%d,%d,%.1f,%.1f,%.1f,%.1f\n", Index(worker_), progress.clock - 1,
                           Micros(progress.compute_ns - last_.compute_ns),
                           Micros(progress.injected_ns - last_.injected_ns),
                           Micros(progress.blocked_ns - last_.blocked_ns), Micros(now));
  last_ = progress;
}

void RemoveTraceParts(const std::string& path, uint32_t workers) {
  for (uint32_t w = 0; w < workers; ++w) {
    std::error_code missing;
    std::filesystem::remove(TracePart(path, WorkerId{w}), missing);
  }
}

absl::Status JoinTraceParts(const std::string& path, uint32_t workers) {
  std::string joined = kHeader;
  for (uint32_t w = 0; w < workers; ++w) {
    std::ifstream part(TracePart(path, WorkerId{w}));
    std::string line;
    std::getline(part, line);  // the header
    while (std::getline(part, line)) joined += line + "\n";
  }
  SOAP_RETURN_IF_ERROR(WriteWholeFile(path, joined));
  RemoveTraceParts(path, workers);
  return absl::OkStatus();
}

}  // namespace soapstone::apps
