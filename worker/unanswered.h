// Unanswered: what a worker has said to each shard, and cannot know to be in all of the shard's
// replicas. An answer comes after all that was said to its shard before its question, and not
// before all replicas have that (server/replica/replica.h): so an answer of clock c stands for all
// that is of earlier clocks. Of the rest the engine says all again, in its order, where another
// server takes the shard's messages from a roster on; what is there already the shard knows.
// A worker that has done its last step keeps the rest until the job is over.
// A value: copied with its engine. Payloads are shared, not copied.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::worker {

// Invariants, of each shard:
//  1. Messages stand in the order in which they were said; of pulls of one clock the last does.
//  2. Nothing stands here of a clock before that of an answer.
class Unanswered {
 public:
  // `shards`: of the layout; 0: nothing is kept.
  explicit Unanswered(uint32_t shards) : shards_(shards) {}

  // A push, a clock or a pull goes out.
  void OnSent(ShardId shard, const wire::Message& message);
  void OnAnswered(ShardId shard, const wire::Message& reply);
  const std::deque<wire::Message>& Of(ShardId shard) const { return shards_[Index(shard)]; }
  uint32_t shards() const { return static_cast<uint32_t>(shards_.size()); }
  uint64_t bytes() const { return bytes_; }  // of payloads
  void AddTo(Fingerprint* f) const;

 private:
  std::vector<std::deque<wire::Message>> shards_;
  uint64_t bytes_ = 0;
};

}  // namespace soapstone::worker
