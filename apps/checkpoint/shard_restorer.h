// Gives a new shard the values of the checkpoint that its job goes on from.
#pragma once

#include "absl/status/status.h"
#include "base/ids.h"
#include "checkpoint/image.h"
#include "cluster/job.h"
#include "server/store/store.h"
#include "server/store/table_store.h"
#include "wire/layout.h"

namespace soapstone::apps {

// Reads its slices and the rows of its tables, and what the optimizer remembered of them, from the
// parts that have them, whoever wrote these, and checks what it reads. Of a job that begins at the
// start: does nothing. Error: InvalidArgument, one line; the store is good for nothing then.
absl::Status RestoreShard(const Job& job, ShardId shard, server::Store* store);

// Its part for the rows of tables. Error: one line: a table is missing or of other rows, a key is
// there twice, rows are more than the shard may have, or are not as they were written.
absl::Status RestoreTables(const wire::Layout& layout, ShardId shard, checkpoint::Image* image,
                           server::TableStore* tables);

}  // namespace soapstone::apps
