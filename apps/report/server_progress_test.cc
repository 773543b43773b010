#include "apps/report/server_progress.h"

#include <gtest/gtest.h>

#include "wire/frame.h"

namespace soapstone::apps {
namespace {

// Worker w has read 100 times, with a mean lag of (8 w) % workers clocks.
wire::ShardReads ReadsOf(uint32_t shard, uint32_t workers) {
  wire::ShardReads reads = {.shard = ShardId{shard}, .frontier = 9};
  for (uint32_t w = 0; w < workers; ++w) {
    const uint64_t lag = uint64_t{8} * w % workers;
    reads.readers.push_back(
        {.worker = WorkerId{w}, .clock = 12, .reads = 100, .lag_sum = 100 * lag, .lag_max = lag});
  }
  reads.reader_count = workers;
  return reads;
}

bool IsValid(const wire::ServerProgress& progress) {
  wire::Message message;
  message.type = wire::MessageType::kHeartbeat;
  message.body = progress;
  return wire::Validate(message).ok();
}

TEST(ServerProgressTest, AllReadersAreToldWhereTheyAreFew) {
  const std::vector<wire::ShardReads> shards = {ReadsOf(0, 3), ReadsOf(1, 256)};
  EXPECT_EQ(ProgressOf(shards).shards, shards);
  EXPECT_TRUE(IsValid(ProgressOf(shards)));
  EXPECT_TRUE(ProgressOf({}).shards.empty());
}

TEST(ServerProgressTest, OfMoreReadersQuantilesByMeanLagStandForAll) {
  const wire::ServerProgress progress = ProgressOf({ReadsOf(0, 1001), ReadsOf(1, 3)});
  EXPECT_TRUE(IsValid(progress));
  const wire::ShardReads& folded = progress.shards[0];
  EXPECT_TRUE(folded.folded());
  EXPECT_EQ(folded.reader_count, 1001u);
  EXPECT_EQ(folded.frontier, 9);
  ASSERT_EQ(folded.readers.size(), wire::ShardReads::kQuantiles.size());
  for (size_t i = 0; i < folded.readers.size(); ++i) {
    const wire::ReaderState& reader = folded.readers[i];
    EXPECT_EQ(reader.lag_max, wire::ShardReads::kQuantiles[i] * 10);
    EXPECT_EQ(reader.lag_max, uint64_t{8} * Index(reader.worker) % 1001);  // it is a worker's own
  }
  EXPECT_FALSE(progress.shards[1].folded());
}

TEST(ServerProgressTest, WhoHasNotReadYetIsNotBehind) {
  wire::ShardReads reads = ReadsOf(0, 300);
  reads.readers[299] = {.worker = WorkerId{299}, .parked_ms = 7};
  reads.parked_count = 1;
  const wire::ServerProgress progress = ProgressOf({reads});
  EXPECT_EQ(progress.shards[0].readers.front().lag_sum, 0u);
  EXPECT_EQ(progress.shards[0].parked_count, 1u);
  EXPECT_TRUE(IsValid(progress));
}

// A heartbeat stays small however many shards and workers there are.
TEST(ServerProgressTest, AllOfAServersListsAreBounded) {
  std::vector<wire::ShardReads> shards;
  for (uint32_t k = 0; k < 17; ++k) shards.push_back(ReadsOf(k, 256));
  for (const wire::ShardReads& shard : ProgressOf(shards).shards) EXPECT_TRUE(shard.folded());
  while (shards.size() < 1000) {
    shards.push_back(ReadsOf(static_cast<uint32_t>(shards.size()), 256));
  }
  const wire::ServerProgress progress = ProgressOf(shards);
  EXPECT_EQ(progress.shards.size(), wire::ServerProgress::kShardsMax);
  EXPECT_TRUE(IsValid(progress));
  wire::Message message;
  message.type = wire::MessageType::kHeartbeat;
  message.body = progress;
  EXPECT_LE(wire::EncodeHeader(message, wire::Address::Of(ServerId{0})).size(), 128u << 10);
}

}  // namespace
}  // namespace soapstone::apps
