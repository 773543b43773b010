// What must hold where a world's job is over, or can go no further: World's part (sim/world.h).
#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "sim/world.h"

namespace soapstone::sim {

void World::CheckEnd() {
  if (Violation().has_value()) return;
  if (!Finished()) {
    if (connections_.channels().empty() && Enabled().empty())
      Fail("S5: deadlock: nothing can happen, and the job is not over");
    return;
  }
  if (cut_.ended_at().has_value()) return;
  if (timed_out_ && coordinator_.ended()->code == kExitPeerLost) return;
  if (coordinator_.ended()->code != 0) {
    return Fail(absl::StrCat("end: the job ended with code ", coordinator_.ended()->code, ": ",
                             coordinator_.ended()->text));
  }
  const cluster::TrainingJob& job = factory_->job();
  // While nobody comes or goes, each micro-batch is computed once at every clock, by whatever
  // shares.
  if (job.rebalance && !members_change_) {
    std::optional<std::string> wrong = supply_.WhatIsWrong(job.total_clocks, job.micro_batches);
    if (wrong.has_value()) return Fail(*std::move(wrong));
  }
  if (job.specs.policy.takes_over()) CheckSums();
}

// Whatever happened, each micro-batch of each clock is in the store once.
void World::CheckSums() {
  const cluster::TrainingJob& job = factory_->job();
  for (uint32_t k = 0; k < factory_->shards(); ++k) {
    const server::Shard& shard = servers_.ShardAt(ShardId{k}, coordinator_.roster().chains);
    const auto& counts = shard.store().counts()->buckets();
    for (uint32_t b = 0; b < counts.size(); ++b) {
      int64_t due = 0;
      for (Clock c = 0; c < job.total_clocks; ++c) {
        for (uint32_t micro_batch = 0; micro_batch < job.micro_batches; ++micro_batch) {
          due += MicroBatchDelta(c, shard.id(), BucketId{b}, micro_batch);
        }
      }
      if (counts[b].sum == due) continue;
      return Fail(absl::StrCat("S6: shard ", Index(shard.id()), " bucket ", b,
                               " does not hold each micro-batch once at the end (version ",
                               shard.policy().Frontier(), " of ", job.total_clocks, ")"));
    }
  }
}

}  // namespace soapstone::sim
