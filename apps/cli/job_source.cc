#include "apps/cli/job_source.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <iostream>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "apps/cli/command_line.h"
#include "apps/loop/writer_thread.h"
#include "apps/report/process_memory.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "cluster/job.h"
#include "cluster/job_paths.h"
#include "cluster/recording_format.h"
#include "cluster/team/job_strategy.h"
#include "models/formats/safetensors_writer.h"
#include "security/job_keys.h"

namespace soapstone::apps {

namespace fs = std::filesystem;
namespace {

// "training.batch: at least 1 is needed (--batch)": whoever set no field, but a flag, finds it.
std::string WithFlag(std::string line) {
  for (const JobField& field : JobFields()) {
    const std::string flag = absl::StrCat("--", field.flag);
    if (!absl::StartsWith(line, absl::StrCat(field.path, ": "))) continue;
    if (!absl::StrContains(line, flag)) absl::StrAppend(&line, " (", flag, ")");
  }
  return line;
}

}  // namespace

absl::StatusOr<wire::JobConfig> ConfigFromFlags(const NodeFlags& flags) {
  wire::JobConfig config;
  if (!flags.config_path.empty()) {
    SOAP_ASSIGN_OR_RETURN(config, ReadJobFile(flags.config_path));
  }
  SOAP_RETURN_IF_ERROR(ApplyOverrides(flags.overrides, &config));
  if (flags.config_path.empty() && config.model().empty()) {
    return absl::InvalidArgumentError(
        "no job was named: --config=FILE, the same for all its processes");
  }
  SOAP_RETURN_IF_ERROR(FillFromStrategy(&config));
  FillDefaults(&config);
  return config;
}

void SayNotes(const std::string& program, const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::cerr << program << ": " << note << "\n";
}

absl::Status CheckFolderCanBeMade(const std::string& path) {
  std::error_code error;
  fs::path nearest = fs::absolute(path, error);  // that is there
  while (!fs::exists(nearest, error) && nearest.has_relative_path()) {
    nearest = nearest.parent_path();
  }
  if (access((nearest / ".").c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot write to ", nearest.string(), ": ", std::strerror(errno)));
}

namespace {

// A recording has files of the same names.
absl::Status CheckTimelineFolder(const std::string& path) {
  if (fs::exists(absl::StrCat(path, "/", sim::kRecordedJobFile))) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds a recording (--record): give another folder"));
  }
  return CheckFolderCanBeMade(path);
}

}  // namespace

absl::Status CheckOutputs(const wire::JobConfig& config, const WrittenHere& here) {
  const wire::Output& output = config.output();
  const std::tuple<const char*, const std::string&, absl::Status (*)(const std::string&)> all[] = {
      {"model_path", output.model_path(), models::CheckWritable},
      {"trace_path", output.trace_path(), models::CheckWritable},
      {"curve_path", output.curve_path(), models::CheckWritable},
      {"log_dir", output.log_dir(), CheckFolderCanBeMade},
      {"tensorboard_path", output.tensorboard_path(), CheckFolderCanBeMade},
      {"timeline_path", output.timeline_path(), CheckTimelineFolder},
      {"checkpoint_path", output.checkpoint_path(), CheckFolderCanBeMade},
      {"record_path", output.record_path(), CheckFolderCanBeMade}};
  for (const auto& [field, path, check] : all) {
    const bool elsewhere = (&path == &output.model_path() && !here.model) ||
                           (&path == &output.tensorboard_path() && !here.events);
    const absl::Status status = path.empty() || elsewhere ? absl::OkStatus() : check(path);
    if (status.ok()) continue;
    return absl::InvalidArgumentError(absl::StrCat("output.", field, ": ", status.message()));
  }
  return absl::OkStatus();
}

absl::Status CheckOutputsApart(const wire::JobConfig& config, const NodeFlags& flags,
                               std::vector<FileWritten> also) {
  const wire::Output& output = config.output();
  std::vector<std::string> also_read = {flags.config_path, flags.hosts_path};
  // A process that has one of the keys may lie beside the others.
  for (const security::KeyRole role : security::kKeyRoles) {
    if (flags.key.empty()) break;
    also_read.push_back(security::KeyFileOf(flags.key, role));
    also_read.push_back(security::KeyFileOf(fs::path(flags.key).parent_path() / "", role));
  }
  std::vector<FileWritten> written = std::move(also);
  written.push_back({"output.model_path", output.model_path(), true});
  written.push_back({"output.trace_path", output.trace_path()});
  written.push_back({"output.curve_path", output.curve_path()});
  // Both have files of these names.
  for (const auto& [field, path] : {std::pair("output.record_path", output.record_path()),
                                    std::pair("output.timeline_path", output.timeline_path())}) {
    if (!path.empty()) written.push_back({field, absl::StrCat(path, "/shard-0.events")});
  }
  const std::pair<const char*, const std::string&> folders[] = {
      {"output.log_dir", output.log_dir()},
      {"output.tensorboard_path", output.tensorboard_path()},
      {"output.timeline_path", output.timeline_path()},
      {"output.record_path", output.record_path()},
      {"output.checkpoint_path", output.checkpoint_path()}};
  for (const auto& [field, path] : folders) {
    written.push_back({.said_by = field, .path = path, .folder = true});
  }
  return CheckApart(written, config, also_read);
}

int PrintOrCheck(const std::string& program, const NodeFlags& flags, const wire::JobConfig& config,
                 const std::function<absl::Status(const Job&)>& also) {
  if (flags.print_config) std::cout << JobText(config);
  if (!flags.check) return kExitOk;
  const auto job = PrepareJob(config);
  if (!job.ok()) return SayConfigError(program, job.status());
  for (const absl::Status& status : {CheckSecurity(config.cluster(), !flags.key.empty()),
                                     CheckEndpoint(config.cluster()), also(**job)}) {
    if (!status.ok()) return SayConfigError(program, status);
  }
  SayNotes(program, (*job)->notes);
  std::cout << "ok: " << (*job)->summary << "\n";
  return kExitOk;
}

int SayConfigError(const std::string& program, const absl::Status& status) {
  // A daemon's signals are heard by nobody any more: not even this may wait for a reader.
  std::cerr.flush();
  WriterThread errors(STDERR_FILENO, {.name = "standard error", .bytes_max = 1 << 20});
  const std::string line = absl::StrReplaceAll(std::string(status.message()), {{"\n", " "}});
  errors.Put(absl::StrCat(program, ": ", WithFlag(line), "\n"));
  errors.Finish(2 * kSecond).IgnoreError();
  return absl::IsInternal(status) ? kExitInternal : kExitConfig;
}

int CodeOfOutput(const std::string& program, int code) {
  std::cout.flush();
  if (std::cout.good() || code != kExitOk) return code;
  return SayConfigError(program, absl::InvalidArgumentError("standard output cannot be written"));
}

}  // namespace soapstone::apps
