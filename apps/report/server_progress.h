// What a server's heartbeat says of its shards' reads. A function of values; no I/O.
#pragma once

#include <vector>

#include "wire/message.h"

namespace soapstone::apps {

// `shards`: ascending, each with all of its readers. Where those are more than a shard, or all of a
// server's, may list (wire::ShardReads, wire::ServerProgress), some stand for all.
wire::ServerProgress ProgressOf(std::vector<wire::ShardReads> shards);

}  // namespace soapstone::apps
