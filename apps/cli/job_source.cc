#include "apps/cli/job_source.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "cluster/job.h"
#include "cluster/job_paths.h"
#include "models/formats/safetensors_writer.h"

namespace soapstone::apps {

absl::StatusOr<wire::JobConfig> ConfigFromFlags(const NodeFlags& flags) {
  wire::JobConfig config;
  if (!flags.config_path.empty()) {
    SOAP_ASSIGN_OR_RETURN(config, ReadJobFile(flags.config_path));
  }
  SOAP_RETURN_IF_ERROR(ApplyOverrides(flags.overrides, &config));
  FillDefaults(&config);
  return config;
}

void SayNotes(const std::string& program, const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::cerr << program << ": " << note << "\n";
}

int PrintOrCheck(const std::string& program, const NodeFlags& flags,
                 const wire::JobConfig& config) {
  if (flags.print_config) std::cout << JobText(config);
  if (!flags.check) return kExitOk;
  const auto job = PrepareJob(config);
  if (!job.ok()) return SayConfigError(program, job.status());
  if (!config.output().model_path().empty()) {
    const absl::Status writable = models::CheckWritable(config.output().model_path());
    if (!writable.ok()) return SayConfigError(program, writable);
  }
  SayNotes(program, (*job)->notes);
  std::cout << "ok: " << (*job)->summary << "\n";
  return kExitOk;
}

int SayConfigError(const std::string& program, const absl::Status& status) {
  std::cerr << program << ": " << absl::StrReplaceAll(std::string(status.message()), {{"\n", " "}})
            << "\n";
  return absl::IsInternal(status) ? kExitInternal : kExitConfig;
}

}  // namespace soapstone::apps
