#include "server/replica/replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "wire/membership/chains.h"

namespace soapstone::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::Address;
using wire::Message;
using wire::MessageType;

// A shard of one tensor under ssp:s=0, on several servers, between which the test carries messages.
class ReplicaTest : public ::testing::Test {
 protected:
  void Start(uint32_t replicas) {
    policy_ = *consistency::ParsePolicy("ssp:s=0");
    layout_ = std::make_shared<const wire::Layout>(
        *wire::Layout::Build({{.name = "w", .shape = {8}}}, {.shard_count = 1}));
    roster_.worker_count = 1;
    roster_.workers.push_back({.worker = WorkerId{0}, .admitted = 1});
    wire::Chain chain;
    for (uint32_t s = 0; s < replicas; ++s) {
      roster_.servers.push_back({ServerId{s}, "inproc://x", ""});
      chain.links.push_back({ServerId{s}, 1});
      replicas_.emplace(s, Replica({.self = ServerId{s}, .chained = true}, MakeShard()));
    }
    roster_.chains = {std::move(chain)};
    epoch_ = 1;
    for (uint32_t s = 0; s < replicas; ++s) TellRoster(s);
    Carry();
    said_.clear();
  }

  Shard MakeShard() const {
    const TensorStoreOptions store = {.layout = layout_,
                                      .shard = ShardId{0},
                                      .optimizer = *compute::ParseOptimizer("momentum:lr=1,mu=0.5"),
                                      .schedule = *compute::ParseSchedule("constant"),
                                      .total_clocks = 10,
                                      .rule = policy_.store};
    return Shard({.id = ShardId{0}, .layout = layout_, .policy = policy_, .final_clock = 10},
                 Store(store));
  }

  // What it sends waits to be carried; what is for others is said.
  void Feed(uint32_t server, Message message) {
    wire::Outbox out;
    replicas_.at(server).OnMessage(7, std::move(message), &out);
    for (Message& sent : out.messages) {
      if (sent.to.role == wire::Role::kServer) {
        under_way_.push_back(std::move(sent));
      } else {
        said_.push_back(std::move(sent));
      }
    }
  }
  void CarryOne() {
    Message message = std::move(under_way_.front());
    under_way_.erase(under_way_.begin());
    const uint32_t to = message.to.index;
    if (!gone_.contains(to)) Feed(to, std::move(message));
  }
  void Carry() {
    while (!under_way_.empty()) CarryOne();
  }

  void TellRoster(uint32_t server) {
    Message message;
    message.type = MessageType::kRoster;
    message.from = Address::Scheduler();
    message.to = Address::Of(ServerId{server});
    message.epoch = epoch_;
    message.body = roster_;
    Feed(server, std::move(message));
  }
  // From the next roster on; whom it is told to the test says.
  void CountOut(uint32_t server) {
    wire::RemoveServer(ServerId{server}, ++epoch_, &roster_.chains);
    std::erase_if(roster_.servers, [&](const auto& s) { return s.server == ServerId{server}; });
  }

  Message Of(MessageType type, Clock clock) const {
    Message message;
    message.type = type;
    message.from = Address::Of(WorkerId{0});
    message.to = Address::Of(ShardId{0});
    message.epoch = epoch_;
    message.worker = WorkerId{0};
    message.clock = clock;
    return message;
  }
  Message Push(Clock clock) const {
    Message push = Of(MessageType::kPush, clock);
    push.body = wire::Push{
        .micro_batches = {0, 1}, .micro_batch_count = 1, .samples = 1, .batch_samples = 1};
    const std::vector<float> values(8, 1.0F + static_cast<float>(clock));
    push.payload = {Buffer::CopyOf<float>(values)};
    return push;
  }
  Message ClockTo(Clock clock) const {
    Message message = Of(MessageType::kClock, clock);
    message.body = wire::Completion{.pushes = 1};
    return message;
  }
  Message Pull(Clock clock) const {
    Message message = Of(MessageType::kPull, clock);
    message.body = wire::Pull{};
    return message;
  }
  void Step(uint32_t server, Clock clock) {
    Feed(server, Push(clock));
    Feed(server, ClockTo(clock + 1));
    Feed(server, Pull(clock + 1));
  }
  std::vector<Clock> TakeAnswers() {
    std::vector<Clock> clocks;
    for (const Message& message : std::exchange(said_, {})) {
      EXPECT_EQ(message.type, MessageType::kPullReply) << wire::ToString(message);
      clocks.push_back(message.clock);
    }
    return clocks;
  }
  std::pair<uint64_t, uint64_t> PrintOf(uint32_t server) const {
    Fingerprint f;
    replicas_.at(server).shard().AddTo(&f);
    return f.value();
  }

  consistency::PolicyTraits policy_;
  std::shared_ptr<const wire::Layout> layout_;
  wire::Roster roster_;
  Epoch epoch_ = 0;
  std::map<uint32_t, Replica> replicas_;
  std::set<uint32_t> gone_;
  std::vector<Message> under_way_, said_;
};

TEST_F(ReplicaTest, AnAnswerLeavesWhenTheWholeChainHasItsQuestion) {
  Start(3);
  Feed(0, Pull(0));
  EXPECT_THAT(said_, IsEmpty());
  CarryOne();  // the record to server 1, and on
  CarryOne();  // to server 2, which says so
  EXPECT_THAT(said_, IsEmpty());
  CarryOne();
  EXPECT_THAT(TakeAnswers(), ElementsAre(0));
  EXPECT_EQ(replicas_.at(0).acked(), replicas_.at(0).index());
}

// Of pushes the last of the chain says no word; one that lets something go asks for it.
TEST_F(ReplicaTest, WhatAPushBringsAboutLeavesToo) {
  Start(3);
  Feed(0, Push(0));
  Carry();
  EXPECT_EQ(replicas_.at(2).shard().stats().pushes_applied, 1u);
  EXPECT_LT(replicas_.at(0).acked(), replicas_.at(0).index());
  Feed(0, ClockTo(1));
  Carry();
  Message push = Push(1);
  const std::vector<float> values(8, std::numeric_limits<float>::infinity());
  push.payload = {Buffer::CopyOf<float>(values)};
  Feed(0, push);
  EXPECT_THAT(said_, IsEmpty());
  Carry();
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_EQ(said_[0].type, MessageType::kNotFinite);
  EXPECT_EQ(replicas_.at(0).acked(), replicas_.at(0).index());
}

TEST_F(ReplicaTest, FollowersAreWhatTheHeadIs) {
  Start(3);
  for (Clock c = 0; c < 4; ++c) Step(0, c);
  Carry();
  EXPECT_EQ(PrintOf(0), PrintOf(1));
  EXPECT_EQ(PrintOf(0), PrintOf(2));
  EXPECT_EQ(replicas_.at(2).shard().stats().pushes_applied, 4u);
  EXPECT_EQ(replicas_.at(0).kept_bytes(), 0u);
}

// The head has taken a push and a clock, and answers; its follower has not heard of them.
TEST_F(ReplicaTest, WhatIsSaidAgainToANewHeadCountsOnce) {
  Start(2);
  Step(0, 0);
  Carry();
  EXPECT_THAT(TakeAnswers(), ElementsAre(1));
  Feed(0, Push(1));
  Carry();
  Feed(0, ClockTo(2));
  under_way_.clear();
  gone_ = {0};
  CountOut(0);
  TellRoster(1);
  EXPECT_TRUE(replicas_.at(1).is_head());
  Step(1, 1);
  Carry();
  std::erase_if(said_, [](const Message& m) { return m.type == MessageType::kRosterAck; });
  EXPECT_THAT(TakeAnswers(), ElementsAre(2));
  EXPECT_EQ(replicas_.at(1).shard().stats().pushes_applied, 2u);
  EXPECT_EQ(replicas_.at(1).shard().stats().duplicates, 1u);
}

TEST_F(ReplicaTest, WhatIsOfARosterToComeWaitsForIt) {
  Start(2);
  CountOut(0);
  Feed(1, Pull(0));  // of epoch 2
  EXPECT_THAT(said_, IsEmpty());
  TellRoster(1);
  ASSERT_EQ(said_.size(), 2u);
  EXPECT_EQ(said_[0].type, MessageType::kRosterAck);
  EXPECT_EQ(said_[1].type, MessageType::kPullReply);
}

// A roster says who that is.
TEST_F(ReplicaTest, WhoIsToSaveTheModelMayAskBeforeTheRosterIsThere) {
  Start(2);
  CountOut(1);
  Message save = Of(MessageType::kSave, kNoClock);
  save.from = Address::Of(ServerId{0});
  save.body = wire::Save{.bucket = BucketId{0}};
  Feed(0, save);
  EXPECT_EQ(replicas_.at(0).index(), 1u);
  TellRoster(0);
  EXPECT_EQ(replicas_.at(0).index(), 3u);
  EXPECT_EQ(replicas_.at(0).shard().stats().rejects, 0u);
}

TEST_F(ReplicaTest, WhoIsCountedOutAndLivesIsHeardByNobody) {
  Start(2);
  CountOut(0);
  TellRoster(1);
  said_.clear();
  const uint64_t index = replicas_.at(1).index();
  --epoch_;  // of a worker that has not heard
  Step(0, 0);
  Carry();
  EXPECT_THAT(said_, IsEmpty());
  EXPECT_EQ(replicas_.at(1).index(), index);
  EXPECT_EQ(replicas_.at(1).shard().stats().pushes_applied, 0u);
}

TEST_F(ReplicaTest, WhoBecomesNextIsSaidWhatItMayLack) {
  Start(3);
  Feed(0, Push(0));
  CarryOne();  // server 1 has it; its own record to server 2 is lost
  under_way_.clear();
  gone_ = {1};
  CountOut(1);
  TellRoster(2);
  TellRoster(0);
  Carry();
  EXPECT_EQ(PrintOf(0), PrintOf(2));
  Feed(0, ClockTo(1));
  Feed(0, Pull(1));
  Carry();
  std::erase_if(said_, [](const Message& m) { return m.type == MessageType::kRosterAck; });
  EXPECT_THAT(TakeAnswers(), ElementsAre(1));
}

TEST_F(ReplicaTest, WhoIsAloneByItsRosterWaitsForNobody) {
  Start(2);
  Step(0, 0);
  under_way_.clear();  // its follower is dead
  gone_ = {1};
  EXPECT_THAT(said_, IsEmpty());
  CountOut(1);
  TellRoster(0);
  std::erase_if(said_, [](const Message& m) { return m.type == MessageType::kRosterAck; });
  EXPECT_THAT(TakeAnswers(), ElementsAre(1));
  Step(0, 1);
  EXPECT_THAT(TakeAnswers(), ElementsAre(2));
  EXPECT_EQ(replicas_.at(0).kept_bytes(), 0u);
}

TEST_F(ReplicaTest, ARecordThatIsNoneEndsTheReplicaAlone) {
  Start(2);
  Feed(0, Pull(0));
  Message record = under_way_.front();
  record.payload[0] = Buffer::CopyOf("nothing");
  Feed(1, record);
  ASSERT_TRUE(replicas_.at(1).failure().has_value());
  EXPECT_THAT(*replicas_.at(1).failure(), HasSubstr("is no message"));
}

TEST_F(ReplicaTest, AGapEndsTheReplica) {
  Start(2);
  Feed(0, Pull(0));
  Feed(0, Pull(0));
  under_way_.erase(under_way_.begin());
  Carry();
  ASSERT_TRUE(replicas_.at(1).failure().has_value());
  EXPECT_THAT(*replicas_.at(1).failure(), HasSubstr("is next"));
}

TEST_F(ReplicaTest, MoreThanMayBeEarlyEndsTheReplica) {
  Start(2);
  replicas_.erase(1);
  replicas_.emplace(
      1, Replica({.self = ServerId{1}, .chained = true, .early_bytes_max = sizeof(Message) + 40},
                 MakeShard()));
  ++epoch_;
  Feed(1, Push(0));
  EXPECT_FALSE(replicas_.at(1).failure().has_value());
  Feed(1, Push(0));
  ASSERT_TRUE(replicas_.at(1).failure().has_value());
}

// Strangers: what names no server of the chain changes nothing.
TEST_F(ReplicaTest, WordsOfOthersChangeNothing) {
  Start(2);
  Feed(0, Pull(0));
  Message recorded;
  recorded.type = MessageType::kRecorded;
  recorded.from = Address::Of(ServerId{5});
  recorded.body = wire::Recorded{.shard = 0, .index = 99};
  Feed(0, recorded);
  EXPECT_THAT(said_, IsEmpty());
  Message record = under_way_.front();
  record.from = Address::Of(ServerId{5});
  Feed(1, record);
  EXPECT_EQ(replicas_.at(1).index(), 1u);  // the roster
}

TEST(ReplicaOfOne, IsTheShard) {
  const auto layout = std::make_shared<const wire::Layout>(
      *wire::Layout::Build({{.name = "w", .shape = {8}}}, {.shard_count = 1}));
  Replica replica({}, Shard({.id = ShardId{0},
                             .layout = layout,
                             .policy = *consistency::ParsePolicy("async"),
                             .final_clock = 1},
                            Store(CountStore(1))));
  EXPECT_TRUE(replica.is_head());
  Message roster;
  roster.type = MessageType::kRoster;
  roster.from = Address::Scheduler();
  roster.epoch = 1;
  roster.body = wire::Roster{.worker_count = 1};
  wire::Outbox out;
  replica.OnMessage(0, roster, &out);
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].type, MessageType::kRosterAck);
  EXPECT_EQ(replica.index(), 0u);
}

}  // namespace
}  // namespace soapstone::server
