#include "apps/experiment/experiment_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/cli/job_source.h"
#include "base/files/whole_file.h"
#include "base/status_macros.h"
#include "experiment/registry.h"
#include "experiment/report/report.h"

namespace soapstone::apps {
namespace {

namespace fs = std::filesystem;

constexpr char kRegistry[] = "runs.jsonl";

absl::Status Refuse(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--out=", path, ": ", why));
}

absl::Status CannotWriteRuns(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
}

absl::StatusOr<std::string> ReadAll(int fd, const std::string& path) {
  std::string text;
  char block[65'536];
  while (true) {
    const ssize_t n = read(fd, block, sizeof(block));
    if (n == 0) return text;
    if (n < 0) return absl::InvalidArgumentError(absl::StrCat("cannot read ", path));
    text.append(block, static_cast<size_t>(n));
  }
}

// In place of what was there, at once: a reader sees the old file or the new one.
absl::Status Replace(const std::string& path, const std::string& text) {
  const std::string fresh = absl::StrCat(path, ".new");
  {
    std::ofstream file(fresh, std::ios::binary);
    file << text << std::flush;
    if (!file) return CannotWriteRuns(fresh);
  }
  if (std::rename(fresh.c_str(), path.c_str()) != 0) return CannotWriteRuns(path);
  return absl::OkStatus();
}

absl::Status CheckPlace(const std::string& path) {
  std::error_code error;
  const bool there = fs::exists(path, error);
  if (there && !fs::is_directory(path, error)) return Refuse(path, "is not a folder");
  const absl::Status writable = CheckFolderCanBeMade(path);
  if (!writable.ok()) return Refuse(path, writable.message());
  if (!there || fs::exists(absl::StrCat(path, "/", kRegistry), error)) return absl::OkStatus();
  if (!fs::is_empty(path, error) || error) {
    return Refuse(path, "is not empty and not an experiment's folder; nothing was changed");
  }
  return absl::OkStatus();
}

// What the registry of the folder has, where it is whole and the experiment's.
absl::StatusOr<experiment::Registry> RegistryOf(const std::string& path, const std::string& text,
                                                const experiment::Experiment& experiment) {
  absl::StatusOr<experiment::Registry> registry = experiment::ParseRegistry(text);
  if (!registry.ok()) {
    return Refuse(path, absl::StrCat(kRegistry, ", ", registry.status().message()));
  }
  // Of a kill within the first write a part of the header is left.
  const bool ours = registry->experiment == experiment.digest ||
                    (registry->experiment.empty() &&
                     absl::StartsWith(experiment::HeaderLine(experiment.digest), text));
  if (ours) return registry;
  return Refuse(path, absl::StrCat("holds the runs of another experiment (",
                                   registry->experiment.substr(0, 12), ", this one is ",
                                   experiment.digest.substr(0, 12), "); nothing was changed"));
}

}  // namespace

absl::Status ExperimentFolder::Check(const std::string& path,
                                     const experiment::Experiment& experiment) {
  SOAP_RETURN_IF_ERROR(CheckPlace(path));
  const std::string registry = absl::StrCat(path, "/", kRegistry);
  std::error_code error;
  if (!fs::exists(registry, error)) return absl::OkStatus();
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(registry));
  return RegistryOf(path, text, experiment).status();
}

absl::StatusOr<std::unique_ptr<ExperimentFolder>> ExperimentFolder::Open(
    const std::string& path, const experiment::Experiment& experiment,
    const std::string& spec_text) {
  SOAP_RETURN_IF_ERROR(CheckPlace(path));
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return Refuse(path, absl::StrCat("cannot be made: ", error.message()));
  const std::string registry = absl::StrCat(path, "/", kRegistry);
  const int fd = open(registry.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return CannotWriteRuns(registry);
  std::unique_ptr<ExperimentFolder> folder(new ExperimentFolder(path, fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return Refuse(path, "another process is at work in it");
  SOAP_RETURN_IF_ERROR(folder->Load(experiment));
  const std::string spec = absl::StrCat(path, "/spec.textproto");
  if (!fs::exists(spec, error)) SOAP_RETURN_IF_ERROR(Replace(spec, spec_text));
  return folder;
}

ExperimentFolder::~ExperimentFolder() { close(registry_fd_); }

absl::Status ExperimentFolder::Load(const experiment::Experiment& experiment) {
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadAll(registry_fd_, path_));
  SOAP_ASSIGN_OR_RETURN(experiment::Registry registry, RegistryOf(path_, text, experiment));
  if (registry.good_bytes < text.size()) {
    if (ftruncate(registry_fd_, static_cast<off_t>(registry.good_bytes)) != 0) {
      return CannotWriteRuns(path_);
    }
    if (registry.torn) facts_.torn_lines = 1;
  }
  for (experiment::Record& record : registry.runs) {
    outcomes_.emplace(std::move(record.id), std::move(record.outcome));
  }
  last_sha256_ = registry.last_sha256;
  return last_sha256_.empty() ? AppendLine(experiment::HeaderLine(experiment.digest))
                              : absl::OkStatus();
}

absl::Status ExperimentFolder::Append(const std::string& run) {
  return AppendLine(experiment::RunLine(last_sha256_, run));
}

absl::Status ExperimentFolder::AppendLine(const std::string& line) {
  // One write: a kill leaves the whole line or its beginning, at the end of the file.
  size_t written = 0;
  while (written < line.size()) {
    const ssize_t n = write(registry_fd_, line.data() + written, line.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CannotWriteRuns(absl::StrCat(path_, "/", kRegistry));
    written += static_cast<size_t>(n);
  }
  if (fdatasync(registry_fd_) != 0) return CannotWriteRuns(absl::StrCat(path_, "/", kRegistry));
  last_sha256_ = experiment::Sha256Of(line);
  return absl::OkStatus();
}

absl::Status ExperimentFolder::WriteReport(const experiment::Results& results) const {
  SOAP_RETURN_IF_ERROR(Replace(absl::StrCat(path_, "/runs.csv"), experiment::RunsCsv(results)));
  SOAP_RETURN_IF_ERROR(Replace(absl::StrCat(path_, "/runs.json"), experiment::RunsJson(results)));
  return Replace(absl::StrCat(path_, "/report.html"), experiment::ReportPage(results));
}

}  // namespace soapstone::apps
