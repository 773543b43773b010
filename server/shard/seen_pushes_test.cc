#include "server/shard/seen_pushes.h"

#include <gtest/gtest.h>

namespace soapstone::server {
namespace {

using Memory = SeenPushes::Memory;
using wire::Message;
using wire::MessageType;

Message PushAt(uint32_t worker, Clock clock, uint32_t bucket,
               MicroBatchRange micro_batches = {0, 1}) {
  Message push;
  push.type = MessageType::kPush;
  push.worker = WorkerId{worker};
  push.clock = clock;
  push.body = wire::Push{.bucket = BucketId{bucket}, .micro_batches = micro_batches};
  return push;
}

// The worker has completed `clock`-1 with so many pushes.
Message Completed(uint32_t worker, Clock clock, uint32_t pushes) {
  Message message;
  message.type = MessageType::kClock;
  message.worker = WorkerId{worker};
  message.clock = clock;
  message.body = wire::Completion{.pushes = pushes};
  return message;
}

std::pair<uint64_t, uint64_t> PrintOf(const SeenPushes& seen) {
  Fingerprint f;
  seen.AddTo(&f);
  return f.value();
}

TEST(SeenPushesTest, EachKeyIsNewOnce) {
  SeenPushes seen(100);
  for (int time = 0; time < 2; ++time) {
    const Memory due = time == 0 ? Memory::kNew : Memory::kSeenBefore;
    for (uint32_t worker = 0; worker < 3; ++worker) {
      for (uint32_t bucket = 0; bucket < 3; ++bucket) {
        EXPECT_EQ(seen.Remember(PushAt(worker, 0, bucket, {0, 1})), due);
        EXPECT_EQ(seen.Remember(PushAt(worker, 0, bucket, {0, 2})), due);
        EXPECT_EQ(seen.Remember(PushAt(worker, 0, bucket, {1, 2})), due);
      }
    }
  }
}

TEST(SeenPushesTest, WhatIsOfAnEarlierClockWasSeenBefore) {
  SeenPushes seen(100);
  EXPECT_EQ(seen.Remember(PushAt(0, 5, 0)), Memory::kNew);
  EXPECT_EQ(seen.Remember(PushAt(0, 4, 1)), Memory::kSeenBefore);
  EXPECT_EQ(seen.Remember(PushAt(1, 4, 1)), Memory::kNew);  // of another worker
  EXPECT_EQ(seen.Remember(PushAt(0, 6, 0)), Memory::kNew);
  EXPECT_EQ(seen.Remember(PushAt(0, 5, 1)), Memory::kSeenBefore);
}

TEST(SeenPushesTest, NoMoreIsRememberedThanTheBoundOfAClock) {
  SeenPushes seen(2);
  EXPECT_EQ(seen.Remember(PushAt(0, 0, 0)), Memory::kNew);
  EXPECT_EQ(seen.Remember(PushAt(0, 0, 1)), Memory::kNew);
  for (int time = 0; time < 2; ++time) EXPECT_EQ(seen.Remember(PushAt(0, 0, 2)), Memory::kFull);
  EXPECT_EQ(seen.Remember(PushAt(0, 0, 1)), Memory::kSeenBefore);
  EXPECT_EQ(seen.Remember(PushAt(1, 0, 2)), Memory::kNew);
  EXPECT_EQ(seen.Remember(PushAt(0, 1, 2)), Memory::kNew);
}

TEST(SeenPushesTest, AClockWaitsForItsLastPush) {
  SeenPushes seen(100);
  EXPECT_TRUE(seen.Covers(Completed(0, 1, 0)));
  EXPECT_FALSE(seen.Covers(Completed(0, 1, 2)));
  seen.Remember(PushAt(0, 0, 0));
  std::optional<Message> waiting = seen.TakeWaiting(WorkerId{0});
  ASSERT_TRUE(waiting.has_value());
  EXPECT_FALSE(seen.TakeWaiting(WorkerId{0}).has_value());
  EXPECT_FALSE(seen.Covers(*waiting));  // and it waits again
  seen.Remember(PushAt(0, 0, 1));
  waiting = seen.TakeWaiting(WorkerId{0});
  ASSERT_TRUE(waiting.has_value());
  EXPECT_EQ(waiting->clock, 1);
  EXPECT_TRUE(seen.Covers(*waiting));
}

TEST(SeenPushesTest, PushesOfAnotherClockOrWorkerDoNotCoverIt) {
  SeenPushes seen(100);
  seen.Remember(PushAt(0, 0, 0));
  EXPECT_FALSE(seen.Covers(Completed(0, 2, 1)));
  EXPECT_FALSE(seen.Covers(Completed(1, 1, 1)));
  EXPECT_TRUE(seen.Covers(Completed(0, 1, 1)));
  // Nothing of clock 1 is taken any more once there is something of clock 2.
  seen.Remember(PushAt(0, 2, 0));
  EXPECT_TRUE(seen.Covers(Completed(0, 2, 1)));
}

TEST(SeenPushesTest, AForgottenWorkerBeginsAnew) {
  SeenPushes seen(100);
  seen.Remember(PushAt(0, 5, 0));
  EXPECT_FALSE(seen.Covers(Completed(0, 6, 2)));
  seen.Forget(WorkerId{0});
  EXPECT_FALSE(seen.TakeWaiting(WorkerId{0}).has_value());
  EXPECT_EQ(seen.Remember(PushAt(0, 4, 0)), Memory::kNew);
}

TEST(SeenPushesTest, TheFingerprintIsOfTheSet) {
  const auto after = [](const std::vector<Message>& pushes) {
    SeenPushes seen(100);
    for (const Message& push : pushes) seen.Remember(push);
    return PrintOf(seen);
  };
  EXPECT_EQ(after({PushAt(0, 0, 0), PushAt(0, 0, 1), PushAt(0, 0, 2)}),
            after({PushAt(0, 0, 2), PushAt(0, 0, 0), PushAt(0, 0, 1)}));
  EXPECT_NE(after({PushAt(0, 0, 0), PushAt(0, 0, 1)}), after({PushAt(0, 0, 0), PushAt(0, 0, 2)}));
  EXPECT_NE(after({PushAt(0, 0, 0)}), after({PushAt(0, 1, 0)}));
  SeenPushes seen(100);
  seen.Remember(PushAt(0, 0, 0));
  const auto before = PrintOf(seen);
  EXPECT_FALSE(seen.Covers(Completed(0, 1, 2)));
  EXPECT_NE(PrintOf(seen), before);  // a clock that waits
  seen.Forget(WorkerId{0});
  EXPECT_EQ(PrintOf(seen), PrintOf(SeenPushes(100)));
}

}  // namespace
}  // namespace soapstone::server
