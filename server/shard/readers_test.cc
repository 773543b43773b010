#include "server/shard/readers.h"

#include <gtest/gtest.h>

#include <functional>

namespace soapstone::server {
namespace {

using consistency::Ticket;
using wire::Message;

constexpr WorkerId kReader{2};
constexpr BucketId kBucket{1};

Message AskedBy(WorkerId worker, Clock clock = 0, Nanos queued_ns = 0) {
  Message message;
  message.worker = worker;
  message.clock = clock;
  message.queued_ns = queued_ns;
  return message;
}

Message ReplyTo(WorkerId worker) {
  Message reply;
  reply.worker = worker;
  reply.body = wire::PullReply{};
  return reply;
}

Readers NewReaders(bool subscribed = false) {
  return Readers({.bucket_count = 2, .final_clock = 10, .subscribed = subscribed});
}

TEST(ReadersTest, OnePullOfAWorkerIsInHandTheNewest) {
  Readers readers = NewReaders();
  EXPECT_EQ(readers.Replace(kReader, Ticket{5}), Ticket{});
  EXPECT_EQ(readers.Replace(kReader, Ticket{7}), Ticket{5});
  EXPECT_EQ(readers.Replace(WorkerId{0}, Ticket{8}), Ticket{});
  EXPECT_EQ(readers.Forget(kReader), Ticket{7});
  EXPECT_EQ(readers.Forget(kReader), Ticket{});
}

TEST(ReadersTest, OneFinalPullOfAWorkerWaitsTheNewest) {
  Readers readers = NewReaders();
  EXPECT_FALSE(readers.final_waits());
  readers.KeepFinal(AskedBy(kReader, 8));
  readers.KeepFinal(AskedBy(WorkerId{0}, 9));
  readers.KeepFinal(AskedBy(kReader, 10));
  EXPECT_TRUE(readers.final_waits());
  const std::map<WorkerId, Message> waiting = readers.TakeFinal();
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_EQ(waiting.at(kReader).clock, 10);
  EXPECT_FALSE(readers.final_waits());
}

TEST(ReadersTest, TheFinalPullOfWhoIsForgottenWaitsNoMore) {
  Readers readers = NewReaders();
  readers.KeepFinal(AskedBy(kReader));
  Fingerprint waiting, gone;
  readers.AddTo(&waiting);
  readers.Forget(kReader);
  readers.AddTo(&gone);
  EXPECT_FALSE(readers.final_waits());
  EXPECT_NE(waiting.value(), gone.value());
}

TEST(ReadersTest, TheFingerprintTellsWhetherAnybodyHasAsked) {
  Readers readers = NewReaders();
  Fingerprint before, after;
  readers.AddTo(&before);
  readers.OnPull(0, AskedBy(kReader));
  readers.AddTo(&after);
  EXPECT_NE(before.value(), after.value());
}

TEST(ReadersTest, AWorkerWaitsFromItsPullOn) {
  Readers readers = NewReaders();
  readers.OnPull(100, AskedBy(kReader, 0, /*queued_ns=*/7));
  readers.OnClock(120, AskedBy(kReader, 1, /*queued_ns=*/9));
  Message reply = ReplyTo(kReader);
  readers.OnAnswered(150, &reply);
  EXPECT_EQ(wire::As<wire::PullReply>(reply).parked_ns, 50);
  EXPECT_EQ(wire::As<wire::PullReply>(reply).queued_ns, 7);
}

// As after five seconds without an answer, or by a connection that was made again.
TEST(ReadersTest, WhoAsksAgainHasWaitedSinceItAskedFirst) {
  Readers readers = NewReaders();
  const auto waited = [&](Nanos now) {
    Message reply = ReplyTo(kReader);
    readers.OnAnswered(now, &reply);
    return wire::As<wire::PullReply>(reply).parked_ns;
  };
  readers.OnPull(100, AskedBy(kReader, 5));
  readers.OnPull(140, AskedBy(kReader, 5));
  EXPECT_EQ(waited(150), 50);
  readers.OnPull(200, AskedBy(kReader, 5));  // the answer was on its way
  EXPECT_EQ(waited(210), 10);
  readers.OnPull(300, AskedBy(kReader, 6));
  readers.OnPull(320, AskedBy(kReader, 7));
  EXPECT_EQ(waited(330), 10);
}

TEST(ReadersTest, ASubscriberWaitsFromItsClockOn) {
  Readers readers = NewReaders(/*subscribed=*/true);
  readers.OnPull(100, AskedBy(kReader, 0, /*queued_ns=*/7));
  readers.OnClock(120, AskedBy(kReader, 1, /*queued_ns=*/9));
  Message reply = ReplyTo(kReader);
  readers.OnAnswered(150, &reply);
  EXPECT_EQ(wire::As<wire::PullReply>(reply).parked_ns, 30);
  EXPECT_EQ(wire::As<wire::PullReply>(reply).queued_ns, 9);
}

TEST(ReadersTest, WhoWaitsWaitsUntilItIsAnsweredRefusedOrForgotten) {
  Readers readers = NewReaders();
  EXPECT_EQ(readers.WaitsSince(kReader), std::nullopt);
  const auto answer = [&] {
    Message reply = ReplyTo(kReader);
    readers.OnAnswered(150, &reply);
  };
  const auto refuse = [&] { readers.OnRefused(kReader); };
  const auto forget = [&] { readers.Forget(kReader); };
  for (const std::function<void()>& end : {std::function<void()>(answer), {refuse}, {forget}}) {
    readers.OnPull(100, AskedBy(kReader));
    readers.OnPull(120, AskedBy(kReader));
    EXPECT_EQ(readers.WaitsSince(kReader), 100);
    EXPECT_EQ(readers.WaitsSince(WorkerId{0}), std::nullopt);
    end();
    EXPECT_EQ(readers.WaitsSince(kReader), std::nullopt);
  }
}

TEST(ReadersTest, NothingIsOwedToASubscriberAfterTheLastClock) {
  Readers readers = NewReaders(/*subscribed=*/true);
  readers.OnClock(100, AskedBy(kReader, 9));
  EXPECT_EQ(readers.WaitsSince(kReader), 100);
  readers.OnClock(120, AskedBy(kReader, 10));
  EXPECT_EQ(readers.WaitsSince(kReader), std::nullopt);
  readers.OnPull(130, AskedBy(kReader, 10));  // for the final values
  EXPECT_EQ(readers.WaitsSince(kReader), 130);
}

TEST(ReadersTest, ASubscriberReadsAtEveryClockButTheLast) {
  const Readers readers = NewReaders(/*subscribed=*/true);
  const std::optional<Message> pull = readers.PullOfSubscriber(kReader, 9);
  ASSERT_TRUE(pull.has_value());
  EXPECT_EQ(pull->worker, kReader);
  EXPECT_EQ(pull->clock, 9);
  EXPECT_FALSE(wire::As<wire::Pull>(*pull).final);
  EXPECT_FALSE(readers.PullOfSubscriber(kReader, 10).has_value());
}

TEST(ReadersTest, StalenessCountsTheUpdatesOfABucketSinceItsRead) {
  Readers readers = NewReaders();
  readers.OnUpdated(kBucket);
  EXPECT_EQ(readers.StalenessOf(kReader, 0, kBucket), 1u);  // it has read nothing
  Message reply = ReplyTo(kReader);
  readers.OnAnswered(0, &reply);
  EXPECT_EQ(readers.StalenessOf(kReader, 0, kBucket), 0u);
  readers.OnUpdated(kBucket);
  readers.OnUpdated(kBucket);
  readers.OnUpdated(BucketId{0});
  EXPECT_EQ(readers.StalenessOf(kReader, 0, kBucket), 2u);
  EXPECT_EQ(readers.StalenessOf(kReader, 0, BucketId{0}), 1u);
  EXPECT_EQ(readers.StalenessOf(WorkerId{0}, 0, kBucket), 3u);
  readers.Forget(kReader);  // its successor has read nothing either
  EXPECT_EQ(readers.StalenessOf(kReader, 0, kBucket), 3u);
}

TEST(ReadersTest, StalenessOfWhoReadsAheadCountsFromTheReadOfItsClock) {
  Readers readers({.bucket_count = 2, .final_clock = 10, .own_lag = 1});
  Message reply = ReplyTo(kReader);
  for (Clock clock = 0; clock < 3; ++clock) {
    reply.clock = clock;
    readers.OnAnswered(0, &reply);
    readers.OnUpdated(kBucket);
  }
  EXPECT_EQ(readers.StalenessOf(kReader, 2, kBucket), 1u);
  EXPECT_EQ(readers.StalenessOf(kReader, 1, kBucket), 2u);
  EXPECT_EQ(readers.StalenessOf(kReader, 0, kBucket), 1u);  // not kept: by the latest
}

}  // namespace
}  // namespace soapstone::server
