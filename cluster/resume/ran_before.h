// What a job with --strategy=auto is settled by where it goes on from a checkpoint: that says what
// the launcher found before. Called before a job is prepared, so what it is not fit for is said by
// who prepares it.
#pragma once

#include <optional>

#include "wire/config/checkpoint.pb.h"
#include "wire/config/job.pb.h"

namespace soapstone::apps {

// The newest checkpoint that output.resume of a job may go on from, or that of its clock; none:
// there is none, or it cannot be read, or output.resume is "never". Its parts are not looked at.
std::optional<wire::Checkpoint> RanBefore(const wire::JobConfig& config);

// Micro-batches that the job leaves open become those of before: bits depend on them.
void TakeMicroBatches(const std::optional<wire::Checkpoint>& before, wire::JobConfig* config);

// It ran on as many workers, in as many teams: as it ran then, with its strategy or without one, it
// can run again.
bool RunsAsBefore(const wire::Checkpoint& before, const wire::JobConfig& config);

}  // namespace soapstone::apps
