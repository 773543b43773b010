// From flags to a configuration, and the answers that end a program before it does any work:
// --print_config, --check, and the one line of a configuration error.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/cli/node_flags.h"
#include "cluster/job.h"
#include "cluster/job_paths.h"
#include "wire/config/job.pb.h"

namespace soapstone::apps {

// The job file with flags applied and defaults filled in; not yet checked.
absl::StatusOr<wire::JobConfig> ConfigFromFlags(const NodeFlags& flags);

// Says each on standard error, a line "program: note".
void SayNotes(const std::string& program, const std::vector<std::string>& notes);

// Whether the folder is there, or can be made, and takes files; makes nothing. Error:
// InvalidArgument with the path that does not let it.
absl::Status CheckFolderCanBeMade(const std::string& path);

// What only some processes of a job write: server 0 the model, the scheduler what TensorBoard
// reads.
struct WrittenHere {
  bool model = true;
  bool events = true;
};
// The same of all that the job writes: files into folders that are there, and folders. Error:
// InvalidArgument with the field.
absl::Status CheckOutputs(const wire::JobConfig& config, const WrittenHere& here);
// That what the job writes overwrites neither each other, nor what it reads: its keys, too, and the
// files that name its fields and its hosts. `also`: what is written besides. Error: InvalidArgument
// with the field.
absl::Status CheckOutputsApart(const wire::JobConfig& config, const NodeFlags& flags,
                               std::vector<FileWritten> also = {});

// Carries out --print_config and --check. Returns the exit code.
// `also`: what is to be checked of the prepared job besides, such as CheckOutputs.
int PrintOrCheck(const std::string& program, const NodeFlags& flags, const wire::JobConfig& config,
                 const std::function<absl::Status(const Job&)>& also);

// Says "program: what is wrong" on standard error, in one line. Returns kExitConfig, or
// kExitInternal where the error is none of the user's.
int SayConfigError(const std::string& program, const absl::Status& status);

// What a program ends with: `code`, but kExitConfig where it is well and standard output could not
// be written, which is said.
int CodeOfOutput(const std::string& program, int code);

}  // namespace soapstone::apps
