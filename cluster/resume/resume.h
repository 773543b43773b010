// From which checkpoint a job goes on: output.resume of its file as a clock, and whether it may.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "checkpoint/disk.h"
#include "cluster/job.h"
#include "wire/config/checkpoint.pb.h"

namespace soapstone::apps {

// Whether the job can have checkpoints, if it asks for some. Error: InvalidArgument that names what
// does not go with them.
absl::Status CheckCheckpoints(const Job& job);

// The clock of the checkpoint that it goes on from; 0: from the start. Of "auto" and "never" the
// folder is looked at, and what is passed over is said in `notes`; a clock is taken as it is: who
// starts the processes of a job gives them one. Errors: InvalidArgument, of what is in the folder;
// FailedPrecondition where it is of another job, or of another format.
absl::StatusOr<Clock> ResumeClockOf(const Job& job, checkpoint::Disk* disk,
                                    std::vector<std::string>* notes);

// The manifest of the job's first_clock. REQUIRES: it is not 0. Error: InvalidArgument, one line,
// where it is not there, not whole, or of another job.
absl::StatusOr<wire::Checkpoint> ReadFirstCheckpoint(const Job& job, checkpoint::Disk* disk);

// All of it, with every byte. For who starts the processes.
absl::Status VerifyFirstCheckpoint(const Job& job, checkpoint::Disk* disk);

}  // namespace soapstone::apps
