// ShardPlaces: on which servers a job's shards may be, whatever becomes of its servers. The head of
// shard k is at first on server k / shards_per_server, its followers on those after that, in a
// ring.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace soapstone::wire {

struct ShardPlaces {
  uint32_t servers = 0;
  uint32_t shards_per_server = 0;  // 0: any server may have any shard
  uint32_t replicas = 1;           // of each shard; at most `servers`, or 1
  uint32_t idle = 0;               // so many of the last servers have others' shards alone

  uint32_t shards() const { return (servers - idle) * shards_per_server; }

  bool MayBeOn(ServerId server, ShardId shard) const {
    if (shards_per_server == 0) return true;
    const uint32_t home = Index(shard) / shards_per_server;
    if (replicas < 2 || home >= servers || Index(server) >= servers) return Index(server) == home;
    return (Index(server) + servers - home) % servers < replicas;
  }
};

}  // namespace soapstone::wire
