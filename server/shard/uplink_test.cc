#include "server/shard/uplink.h"

#include <gtest/gtest.h>

namespace soapstone::server {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;

// Of two root shards and groups of workers: shard 5 is the branch of group 1 for the slices of 1.
class UplinkTest : public ::testing::Test {
 protected:
  void Push(uint32_t parts = 1) {
    GatheredUpdate update;
    for (uint32_t i = 0; i < parts; ++i) {
      Message push;
      push.clock = 3;
      push.body = wire::Push{.bucket = BucketId{7},
                             .micro_batches = {2 * i, 2 * i + 2},
                             .micro_batch_count = 8,
                             .samples = 5,
                             .batch_samples = 40};
      update.Add(push, 1);
    }
    uplink_.Push(/*epoch=*/2, update, {Buffer::CopyOf<float>(std::vector<float>{1.5f})}, &out_);
  }

  Uplink uplink_{ShardId{5}, /*root_shards=*/2};
  wire::Outbox out_;
};

TEST_F(UplinkTest, AllGoesToTheRootInTheNameOfTheGroup) {
  Push();
  uplink_.Complete(2, 4, &out_);
  uplink_.Fetch(2, 4, &out_);
  uplink_.FetchFinal(2, 10, &out_);
  ASSERT_EQ(out_.messages.size(), 4u);
  EXPECT_EQ(uplink_.root(), Address::Of(ShardId{1}));
  for (const Message& message : out_.messages) {
    EXPECT_EQ(message.from, Address::Of(ShardId{5}));
    EXPECT_EQ(message.to, Address::Of(ShardId{1}));
    EXPECT_EQ(message.worker, WorkerId{1});
    EXPECT_EQ(message.epoch, 2u);
  }
  EXPECT_EQ(out_.messages[2].type, MessageType::kPull);
  EXPECT_EQ(out_.messages[2].clock, 4);
  EXPECT_FALSE(wire::As<wire::Pull>(out_.messages[2]).final);
  EXPECT_EQ(out_.messages[3].type, MessageType::kPull);
  EXPECT_EQ(out_.messages[3].clock, 10);
  EXPECT_TRUE(wire::As<wire::Pull>(out_.messages[3]).final);
}

TEST_F(UplinkTest, ARoundsPartsGoUpAsOnePush) {
  Push(/*parts=*/3);
  const Message& push = out_.messages.at(0);
  EXPECT_EQ(push.type, MessageType::kPush);
  EXPECT_EQ(push.clock, 3);
  EXPECT_EQ(wire::As<wire::Push>(push), (wire::Push{.bucket = BucketId{7},
                                                    .micro_batches = {0, 6},
                                                    .micro_batch_count = 8,
                                                    .samples = 15,
                                                    .batch_samples = 40}));
  EXPECT_EQ(push.payload.at(0).floats()[0], 1.5f);
}

TEST_F(UplinkTest, AClockSaysHowManyPushesWentBeforeIt) {
  const auto pushes_of_clock = [&](Clock clock) {
    uplink_.Complete(2, clock, &out_);
    EXPECT_EQ(out_.messages.back().type, MessageType::kClock);
    EXPECT_EQ(out_.messages.back().clock, clock);
    return wire::As<wire::Completion>(out_.messages.back()).pushes;
  };
  Push();
  Push();
  EXPECT_EQ(pushes_of_clock(4), 2u);
  EXPECT_EQ(pushes_of_clock(5), 0u);
  Push();
  EXPECT_EQ(pushes_of_clock(6), 1u);
}

TEST_F(UplinkTest, TheLastValuesAreAskedForOnceUntilTheyCome) {
  EXPECT_FALSE(uplink_.TakeFinal());  // nobody has asked
  uplink_.FetchFinal(2, 10, &out_);
  uplink_.FetchFinal(2, 10, &out_);
  EXPECT_EQ(out_.messages.size(), 1u);
  EXPECT_TRUE(uplink_.TakeFinal());
  EXPECT_FALSE(uplink_.TakeFinal());  // a second answer
  uplink_.FetchFinal(2, 10, &out_);
  EXPECT_EQ(out_.messages.size(), 2u);
}

TEST_F(UplinkTest, AnotherMemberAsksForTheLastValuesAnew) {
  const auto print = [&] {
    Fingerprint f;
    uplink_.AddTo(&f);
    return f.value();
  };
  const auto before = print();
  uplink_.FetchFinal(2, 10, &out_);
  EXPECT_NE(print(), before);
  uplink_.Restart();
  EXPECT_EQ(print(), before);
  uplink_.FetchFinal(3, 10, &out_);
  EXPECT_EQ(out_.messages.size(), 2u);
}

}  // namespace
}  // namespace soapstone::server
