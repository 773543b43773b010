// Which shard owns a row of a sparse table: a function of (table, key, shards) alone, so that
// workers and servers agree without asking. Workers split their keys by it; shards refuse rows that
// are not theirs.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace soapstone::wire {

// The finaliser of MurmurHash3 (Appleby), a bijection of 64 bits; another mixing than a shard's
// index uses (server/store/key_index.h), so that the keys of one shard are spread there all the
// same. The product's high word is in [0, shard_count). Keys chosen to meet on one shard do: the
// hash balances what is not chosen against it, no more. REQUIRES: shard_count > 0.
inline ShardId ShardOfKey(uint32_t table, uint64_t key, uint32_t shard_count) {
  uint64_t x = key + (static_cast<uint64_t>(table) + 1) * 0xD6E8FEB86659FD93u;
  x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDu;
  x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53u;
  x ^= x >> 33;
  return ShardId{static_cast<uint32_t>(((x >> 32) * shard_count) >> 32)};
}

}  // namespace soapstone::wire
