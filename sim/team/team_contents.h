// What seats hand over in a world of teams (sim/team/team_world.h): integers that say whose they
// are, so that sums are exact, and whatever is of another clock, another seat or a former team
// under the same ranks differs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "base/memory/buffer.h"
#include "server/store/count_store.h"

namespace soapstone::sim {

// A process in a seat: its rank, and the epoch in which its team was admitted.
struct SeatHolder {
  WorkerId rank{};
  Epoch admitted = 0;
  friend bool operator==(const SeatHolder&, const SeatHolder&) = default;
};

inline uint64_t HashOf(SeatHolder of, Clock clock, uint32_t a, uint32_t b) {
  Fingerprint f;
  f.Add(of.rank);
  f.Add(of.admitted);
  f.Add(clock);
  f.Add(a);
  f.Add(b);
  return f.value().first;
}

// Its part of the gradient of a bucket, of the micro-batches of `team`: its own, or a lost one.
inline server::CountedPart PartOf(SeatHolder of, uint32_t team, Clock clock, ShardId shard,
                                  BucketId bucket) {
  const uint64_t hash = HashOf(of, clock, Index(shard), Index(bucket)) + team;
  return {static_cast<int64_t>(hash), hash ^ 0xA5A5A5A5A5A5A5A5u};
}

// A block that it sends, of the micro-batches of `team`; of fewer than 8 bytes the first of them.
inline std::string BlockOf(SeatHolder of, uint32_t team, Clock clock, uint32_t number,
                           uint64_t bytes) {
  std::string content(bytes, '\0');
  const uint64_t id = HashOf(of, clock, number, UINT32_MAX - team);
  std::memcpy(content.data(), &id, std::min<size_t>(bytes, sizeof(id)));
  return content;
}

}  // namespace soapstone::sim
