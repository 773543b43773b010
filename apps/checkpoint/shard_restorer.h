// Gives a new shard the values of the checkpoint that its job goes on from.
#pragma once

#include "absl/status/status.h"
#include "base/ids.h"
#include "cluster/job.h"
#include "server/store/store.h"

namespace soapstone::apps {

// Reads its slices and the rows of its tables, and what the optimizer remembered of them, from the
// parts that have them, whoever wrote these, and checks what it reads. Of a job that begins at the
// start: does nothing. Error: InvalidArgument, one line; the store is good for nothing then.
absl::Status RestoreShard(const Job& job, ShardId shard, server::Store* store);

}  // namespace soapstone::apps
