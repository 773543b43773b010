// The checkers against mutants: runs that break a rule must be caught, by the rule's name.
#include "sim/checkers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/actors.h"
#include "sim/fault_world.h"
#include "wire/header_fields.h"

namespace soapstone::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using wire::Address;
using wire::Message;
using wire::MessageType;

// First violation in up to 50 seeds of a cluster that keeps `kept` and claims `claimed`.
std::string Caught(const std::string& kept, const std::string& claimed) {
  SeedOptions options;
  options.world.shape = {
      .workers = 3, .shards = 2, .policy = *consistency::ParsePolicy(kept), .clocks = 6};
  options.world.claimed = *consistency::ParsePolicy(claimed);
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const auto report = RunSeed(options, seed);
    if (report->violation.has_value()) return *report->violation;
  }
  return "";
}

TEST(CheckersTest, AnUngatedReadIsCaught) {
  EXPECT_THAT(Caught("async", "ssp:s=0"), StartsWith("S"));
}
TEST(CheckersTest, ABoundThatIsOffByOneIsCaught) {
  EXPECT_THAT(Caught("ssp:s=1", "ssp:s=0"), StartsWith("S"));
  EXPECT_THAT(Caught("ssp:s=3", "ssp:s=2"), StartsWith("S"));
}
TEST(CheckersTest, TheBoundThatIsKeptIsNot) { EXPECT_EQ(Caught("ssp:s=1", "ssp:s=1"), ""); }
TEST(CheckersTest, SspZeroIsNotBsp) { EXPECT_NE(Caught("ssp:s=0", "bsp"), ""); }

// One shard, two workers, fed by hand.
class ShardCheckersTest : public testing::Test {
 protected:
  ShardCheckersTest()
      : factory_(*ActorFactory::Make(
            {.workers = 2, .policy = *consistency::ParsePolicy("ssp:s=1"), .clocks = 5})),
        shard_(factory_.MakeShard(ShardId{0})),
        checkers_({.policy = factory_.policy(), .workers = 2, .rounds = 5}) {
    Message roster = Make(MessageType::kRoster, 0, kNoClock);
    roster.from = Address::Scheduler();
    roster.body = wire::Roster{
        .workers = {{.worker = WorkerId{0}, .admitted = 1}, {.worker = WorkerId{1}, .admitted = 1}},
        .worker_count = 2};
    MiniBatch(roster);
  }

  Message Make(MessageType type, uint32_t worker, Clock clock) {
    Message message;
    message.type = type;
    message.from = Address::Of(WorkerId{worker});
    message.to = Address::Of(ShardId{0});
    message.epoch = 1;
    message.worker = WorkerId{worker};
    message.clock = clock;
    message.body = wire::BodyFrom(type, {});
    return message;
  }
  Message Push(uint32_t worker, Clock clock, int64_t delta) {
    Message push = Make(MessageType::kPush, worker, clock);
    push.body = wire::Push{.micro_batches = {worker, worker + 1},
                           .micro_batch_count = 2,
                           .samples = 1,
                           .batch_samples = 2};
    push.payload = {Buffer::CopyOf(&delta, sizeof(delta))};
    return push;
  }
  void MiniBatch(const Message& message) {
    wire::Outbox outbox;
    checkers_.BeforeShard(shard_, message);
    shard_.OnMessage(0, message, &outbox);
    checkers_.AfterShard(shard_, outbox.messages);
  }
  std::string Verdict() const { return checkers_.violation().value_or("ok"); }

  ActorFactory factory_;
  server::Shard shard_;
  Checkers checkers_;
};

TEST_F(ShardCheckersTest, AnHonestStepPasses) {
  MiniBatch(Make(MessageType::kPull, 0, 0));
  MiniBatch(Push(0, 0, 7));
  MiniBatch(Push(0, 0, 7));  // twice: dropped by the shard
  MiniBatch(Make(MessageType::kClock, 0, 1));
  MiniBatch(Make(MessageType::kPull, 0, 1));
  EXPECT_EQ(Verdict(), "ok");
  EXPECT_THAT(checkers_.read_lags(), ::testing::ElementsAre(1, 1));
}

TEST_F(ShardCheckersTest, AnUpdateThatIsAppliedTwiceIsCaught) {
  MiniBatch(Push(0, 0, 7));
  wire::Outbox outbox;
  shard_.OnMessage(0, Push(1, 0, 7), &outbox);  // behind the checkers' back
  MiniBatch(Make(MessageType::kPull, 0, 0));
  EXPECT_THAT(Verdict(), HasSubstr("S6"));
}

TEST_F(ShardCheckersTest, AnUpdateThatIsAlteredIsCaught) {
  checkers_.BeforeShard(shard_, Push(0, 0, 7));
  wire::Outbox outbox;
  shard_.OnMessage(0, Push(0, 0, 8), &outbox);
  checkers_.AfterShard(shard_, outbox.messages);
  EXPECT_THAT(Verdict(), HasSubstr("S6"));
}

// The shard answers with the block before: what was read then, under the clock of now.
TEST_F(ShardCheckersTest, AnAnswerFromTheBlockBeforeIsCaught) {
  for (const bool back : {true, false}) {
    Checkers checkers = checkers_;
    server::Shard shard = factory_.MakeShard(ShardId{0});
    shard = shard_;
    const auto feed = [&](const Message& message, bool older) {
      wire::Outbox outbox;
      checkers.BeforeShard(shard, message);
      shard.OnMessage(0, message, &outbox);
      for (Message& sent : outbox.messages) {
        if (older) --wire::As<wire::PullReply>(&sent).version;
      }
      checkers.AfterShard(shard, outbox.messages);
    };
    feed(Push(0, 0, 7), false);
    feed(Make(MessageType::kPull, 1, 0), !back);
    EXPECT_EQ(checkers.violation().has_value(), !back);
    EXPECT_THAT(checkers.violation().value_or("ok"), HasSubstr(back ? "ok" : "S4"));
    feed(Make(MessageType::kPull, 1, 0), back);
    EXPECT_THAT(checkers.violation().value_or("ok"), HasSubstr(back ? "went back" : "S4"));
  }
}

TEST_F(ShardCheckersTest, AClockThatOvertakesItsUpdateIsCaught) {
  MiniBatch(Make(MessageType::kClock, 0, 1));  // says that no push belongs to it
  MiniBatch(Make(MessageType::kPull, 0, 1));
  EXPECT_THAT(Verdict(), HasSubstr("S2"));
}

TEST_F(ShardCheckersTest, AWorkerThatRunsAheadIsCaught) {
  checkers_.OnWorkerStart(WorkerId{0}, 0);
  checkers_.OnWorkerStart(WorkerId{1}, 0);
  const std::vector<Message> ahead = {Make(MessageType::kClock, 1, 3)};
  checkers_.AfterWorker(WorkerId{1}, ahead);
  EXPECT_THAT(Verdict(), HasSubstr("S3"));
}

}  // namespace
}  // namespace soapstone::sim
