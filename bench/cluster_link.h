// Our own link: a worker's transport on one side, and on the other a server's loop with a shard on
// a thread of its own that applies what is pushed by addition (plain SGD under the policy async).
#pragma once

#include <cstdint>
#include <string>

#include "bench/processes.h"

namespace soapstone::bench {

enum class ClusterLink { kSharedMemory, kTcp, kIpc, kProvedSharedMemory, kSealedTcp };

struct ClusterLoad {
  ClusterLink link = ClusterLink::kTcp;
  uint64_t value_bytes = 0;  // of a push's payload; of the shard: times `buckets`
  uint32_t buckets = 1;      // pushes of a step
  uint64_t steps = 1;        // pushes of all buckets, and the clock behind them
  bool push = true;
  bool pull = false;         // of all values, into the worker's memory, once a step
  bool round_trips = false;  // each pull is waited for; else the last one
  // > 0: a push is of rows of a table of so many, which there are before it begins; a bucket's
  // value is `batch_rows` keys, drawn by Zipf's law, each once, and as many rows of `dim` floats.
  uint64_t table_rows = 0;
  uint32_t batch_rows = 4096;
  uint32_t dim = 16;
  double exponent = 1.1;
  std::string key;  // of kProved… and kSealed…: the folder of the keys, as --key of the daemons
  bool pinned = false;  // a processor for each process, as --cpus of the daemons does
};

// The messages of such a load that a link holds at most.
int QueuedMessagesMax(const ClusterLoad& load);

// bytes: of pushes, or of pulls where nothing is pushed. What was pushed has been applied when the
// time is taken: a pull at the end says so.
// Of a table messages are rows.
Sample RunCluster(const ClusterLoad& load);

}  // namespace soapstone::bench
