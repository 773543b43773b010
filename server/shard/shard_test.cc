#include "server/shard/shard.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::server {
namespace {

using ::testing::HasSubstr;
using wire::Address;
using wire::Message;
using wire::MessageType;

class ShardTest : public ::testing::Test {
 protected:
  // A shard of `policy` that claims the guarantee of `claimed`, by default its own.
  void Start(const std::string& policy, uint32_t workers, uint32_t leaf_count,
             const std::string& claimed = "", ShardId id = {}) {
    policy_ = *consistency::ParsePolicy(policy);
    if (!claimed.empty()) policy_.guarantee = consistency::ParsePolicy(claimed)->guarantee;
    layout_ = std::make_shared<const wire::Layout>(
        *wire::Layout::Build({{.name = "w", .shape = {8}}}, {.shard_count = 1}));
    const TensorStoreOptions store = {.layout = layout_,
                                      .shard = id,
                                      .optimizer = *compute::ParseOptimizer("sgd:lr=1"),
                                      .schedule = *compute::ParseSchedule("constant"),
                                      .total_clocks = 10,
                                      .rule = policy_.store,
                                      .fixed_tree = policy_.fixed_tree};
    shard_.emplace(ShardOptions{.id = id,
                                .layout = layout_,
                                .policy = policy_,
                                .leaf_count = leaf_count,
                                .final_clock = 10,
                                .seen_pushes_max = seen_pushes_max_},
                   Store(store));
    leaf_count_ = leaf_count;
    roster_.worker_count = workers;
    for (uint32_t w = 0; w < workers; ++w) {
      roster_.workers.push_back({.worker = WorkerId{w}, .admitted = 1});
    }
    SendRoster(1);
  }

  wire::Outbox Send(Message message) {
    wire::Outbox out;
    shard_->OnMessage(now_, std::move(message), &out);
    return out;
  }

  wire::Outbox SendRoster(Epoch epoch) {
    Message message;
    message.type = MessageType::kRoster;
    message.from = Address::Scheduler();
    message.epoch = epoch;
    message.body = roster_;
    return Send(message);
  }

  Message Data(MessageType type, uint32_t worker, Clock clock) const {
    Message message;
    message.type = type;
    message.from = Address::Of(WorkerId{worker});
    message.epoch = 1;
    message.worker = WorkerId{worker};
    message.clock = clock;
    return message;
  }

  Message Push(uint32_t worker, Clock clock, MicroBatchRange leaves, float value) const {
    Message push = Data(MessageType::kPush, worker, clock);
    push.leaves = leaves;
    push.leaf_count = leaf_count_;
    push.samples = 1;
    push.batch_samples = 1;
    const std::vector<float> values(8, value);
    push.payload.push_back(Buffer::CopyOf<float>(values));
    return push;
  }

  Message Clocked(uint32_t worker, Clock completed, uint32_t pushes) const {
    Message message = Data(MessageType::kClock, worker, completed);
    message.pushes = pushes;
    return message;
  }

  float Value() const { return shard_->store().Read()[0].floats()[0]; }

  consistency::PolicyTraits policy_;
  std::shared_ptr<const wire::Layout> layout_;
  wire::Roster roster_;
  std::optional<Shard> shard_;
  uint32_t leaf_count_ = 1;
  uint64_t seen_pushes_max_ = ShardOptions{}.seen_pushes_max;
  Nanos now_ = 0;
};

TEST_F(ShardTest, PushIsAppliedOnceHoweverOftenItArrives) {
  Start("async", 1, 1);
  Send(Push(0, 0, {0, 1}, 1.0f));
  Send(Push(0, 0, {0, 1}, 1.0f));
  EXPECT_EQ(Value(), -1.0f);
  EXPECT_EQ(shard_->stats().duplicates, 1u);
}

// More than any number of 16 bits, and one by one: none is taken for one before it.
TEST_F(ShardTest, AMillionPushesOfAClockAreToldApart) {
  constexpr uint32_t kPushes = 1'000'000;
  Start("ssp:s=1", 1, kPushes);
  for (uint32_t leaf = 0; leaf < kPushes; ++leaf) Send(Push(0, 0, {leaf, leaf + 1}, 0.0f));
  EXPECT_EQ(shard_->stats().duplicates, 0u);
  EXPECT_EQ(shard_->stats().pushes_applied, kPushes);
  for (uint32_t leaf = 0; leaf < kPushes; leaf += 1000) Send(Push(0, 0, {leaf, leaf + 1}, 0.0f));
  EXPECT_EQ(shard_->stats().duplicates, kPushes / 1000);
  // The clock that says how many there are counts, so nobody waits.
  Send(Clocked(0, 1, kPushes));
  EXPECT_EQ(Send(Data(MessageType::kPull, 0, 1)).messages.size(), 1u);
}

// A bound that is hit is said to who hit it: a push taken for a duplicate would be waited for.
TEST_F(ShardTest, MorePushesThanCanBeRememberedAreRefused) {
  seen_pushes_max_ = 3;
  Start("ssp:s=1", 1, 8);
  for (uint32_t leaf = 0; leaf < 3; ++leaf) {
    EXPECT_TRUE(Send(Push(0, 0, {leaf, leaf + 1}, 1.0f)).messages.empty());
  }
  const wire::Outbox out = Send(Push(0, 0, {3, 4}, 1.0f));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].type, MessageType::kReject);
  EXPECT_EQ(out.messages[0].to, Address::Of(WorkerId{0}));
  EXPECT_THAT(std::get<wire::Notice>(out.messages[0].body).text,
              HasSubstr("more than 3 pushes of clock 0"));
  EXPECT_EQ(shard_->stats().duplicates, 0u);
  EXPECT_EQ(Value(), -3.0f);
  // One that was seen is no new one.
  EXPECT_TRUE(Send(Push(0, 0, {1, 2}, 1.0f)).messages.empty());
  EXPECT_EQ(shard_->stats().duplicates, 1u);
  // And the next clock begins anew.
  Send(Clocked(0, 1, 3));
  EXPECT_TRUE(Send(Push(0, 1, {3, 4}, 1.0f)).messages.empty());
}

// What is remembered is a set: worlds that differ in the order of arrival alone are one state.
TEST_F(ShardTest, TheFingerprintHoldsWhatWasSeenInWhateverOrder) {
  const auto after = [&](std::vector<MicroBatchRange> leaves) {
    shard_.reset();
    roster_ = {};
    Start("bsp", 2, 8);
    for (const MicroBatchRange range : leaves) Send(Push(0, 0, range, 1.0f));
    Fingerprint f;
    shard_->AddTo(&f);
    return f.value();
  };
  EXPECT_EQ(after({{0, 1}, {1, 2}}), after({{1, 2}, {0, 1}}));
  EXPECT_NE(after({{0, 1}, {1, 2}}), after({{0, 1}, {2, 3}}));
  EXPECT_NE(after({{0, 2}}), after({{0, 1}}));
}

TEST_F(ShardTest, DuplicateAfterTheClockIsDropped) {
  Start("ssp:s=1", 1, 1);
  Send(Push(0, 0, {0, 1}, 1.0f));
  Send(Clocked(0, 1, 1));
  Send(Push(0, 0, {0, 1}, 1.0f));
  EXPECT_EQ(Value(), -1.0f);
}

TEST_F(ShardTest, ClockThatOvertakesItsPushesWaitsForThem) {
  Start("ssp:s=0", 2, 2);
  Send(Clocked(1, 1, 1));  // its push is still on the way
  Send(Push(0, 0, {0, 1}, 1.0f));
  Send(Clocked(0, 1, 1));
  EXPECT_TRUE(Send(Data(MessageType::kPull, 0, 1)).messages.empty());
  const wire::Outbox out = Send(Push(1, 0, {1, 2}, 1.0f));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].type, MessageType::kPullReply);
}

TEST_F(ShardTest, MessageOfANonMemberIsRejectedWithTheReason) {
  Start("async", 1, 1);
  const wire::Outbox out = Send(Push(5, 0, {0, 1}, 1.0f));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].type, MessageType::kReject);
  EXPECT_THAT(std::get<wire::Notice>(out.messages[0].body).text, HasSubstr("not a member"));
}

TEST_F(ShardTest, MessageFromBeforeItsWorkersAdmissionIsRejected) {
  Start("async", 1, 1);
  roster_.workers.Mutable()[0].admitted = 3;
  SendRoster(3);
  EXPECT_EQ(Send(Push(0, 0, {0, 1}, 1.0f)).messages.at(0).type, MessageType::kReject);
  EXPECT_EQ(Value(), 0.0f);
}

TEST_F(ShardTest, WrongPayloadSizeIsRejected) {
  Start("async", 1, 1);
  Message push = Push(0, 0, {0, 1}, 1.0f);
  push.payload[0] = push.payload[0].Slice(0, 28);
  EXPECT_EQ(Send(push).messages.at(0).type, MessageType::kReject);
  push.payload.clear();
  EXPECT_EQ(Send(push).messages.at(0).type, MessageType::kReject);
  EXPECT_EQ(Value(), 0.0f);
}

TEST_F(ShardTest, WorkerMayNotSpeakInAnothersName) {
  Start("async", 2, 2);
  Message push = Push(0, 0, {0, 1}, 1.0f);
  push.from = Address::Of(WorkerId{1});
  EXPECT_EQ(Send(push).messages.at(0).type, MessageType::kReject);
}

TEST_F(ShardTest, LeavesMustBeANodeOfTheTree) {
  Start("bsp", 1, 4);
  EXPECT_EQ(Send(Push(0, 0, {1, 3}, 1.0f)).messages.at(0).type, MessageType::kReject);
  EXPECT_TRUE(Send(Push(0, 0, {0, 2}, 1.0f)).messages.empty());
}

TEST_F(ShardTest, ReplyCarriesTheOldestAppliedClock) {
  Start("ssp:s=2", 2, 2);
  Send(Push(0, 0, {0, 1}, 1.0f));
  Send(Clocked(0, 1, 1));
  const wire::Outbox out = Send(Data(MessageType::kPull, 0, 1));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].oldest, 0);
  EXPECT_EQ(shard_->ledger().rows().at(0).read_lags.CountIn(1), 1u);
}

TEST_F(ShardTest, ReplySaysHowLongItsPullWaited) {
  Start("ssp:s=0", 2, 2);
  Send(Push(0, 0, {0, 1}, 1.0f));
  Send(Clocked(0, 1, 1));
  Message pull = Data(MessageType::kPull, 0, 1);
  pull.queued_ns = 7;
  now_ = 100;
  EXPECT_TRUE(Send(pull).messages.empty());
  Send(Push(1, 0, {1, 2}, 1.0f));
  now_ = 130;
  const wire::Outbox out = Send(Clocked(1, 1, 1));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].parked_ns, 30);
  EXPECT_EQ(out.messages[0].queued_ns, 7);
}

TEST_F(ShardTest, ASubscriberWaitsFromItsClockOn) {
  Start("essp:s=0", 2, 2);
  Send(Data(MessageType::kPull, 0, 0));
  Send(Push(0, 0, {0, 1}, 1.0f));
  now_ = 100;
  EXPECT_TRUE(Send(Clocked(0, 1, 1)).messages.empty());
  Send(Push(1, 0, {1, 2}, 1.0f));
  now_ = 130;
  const wire::Outbox out = Send(Clocked(1, 1, 1));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].parked_ns, 30);
}

TEST_F(ShardTest, FinalPullWaitsForEveryMembersLastClock) {
  Start("async", 2, 2);
  Message pull = Data(MessageType::kPull, 0, 10);
  pull.final = true;
  Send(Clocked(0, 10, 0));
  EXPECT_TRUE(Send(pull).messages.empty());
  EXPECT_EQ(Send(Clocked(1, 10, 0)).messages.at(0).final, true);
}

TEST_F(ShardTest, LostMemberReleasesTheFinalPull) {
  Start("async", 2, 2);
  Message pull = Data(MessageType::kPull, 0, 10);
  pull.final = true;
  Send(Clocked(0, 10, 0));
  Send(pull);
  roster_.workers.pop_back();
  const wire::Outbox out = SendRoster(2);
  ASSERT_EQ(out.messages.size(), 2u);
  EXPECT_EQ(out.messages[0].type, MessageType::kPullReply);
  EXPECT_EQ(out.messages[1].type, MessageType::kRosterAck);
}

TEST_F(ShardTest, NewcomerIsInstalledAtTheFrontier) {
  Start("ssp:s=1", 2, 2);
  for (uint32_t w = 0; w < 2; ++w) {
    Send(Push(w, 0, {w, w + 1}, 1.0f));
    Send(Clocked(w, 1, 1));
  }
  roster_.workers.pop_back();
  SendRoster(2);
  roster_.workers.push_back(
      {.worker = WorkerId{1}, .admitted = 3, .joining = true, .original = false});
  const wire::Outbox out = SendRoster(3);
  EXPECT_EQ(out.messages.at(0).clock, 1);
  EXPECT_EQ(shard_->policy().clocks().Of(WorkerId{1}), 1);
}

TEST_F(ShardTest, RosterIsAcknowledgedOnceTheStartOfEveryMemberIsReached) {
  Start("ssp:s=2", 2, 2);
  roster_.workers.pop_back();
  SendRoster(2);
  roster_.workers.push_back({.worker = WorkerId{1}, .start = 1, .admitted = 3, .original = false});
  EXPECT_TRUE(SendRoster(3).messages.empty());
  Send(Push(0, 0, {0, 1}, 1.0f));
  const wire::Outbox out = Send(Clocked(0, 1, 1));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].type, MessageType::kRosterAck);
}

// Found by seed 5990 of the fuzzer: who was left had no update more to send, and the job stood
// still.
TEST_F(ShardTest, UpdatesKeptForABatchDoNotHoldUpANewcomer) {
  Start("softsync:n=1", 2, 2);
  roster_.workers.pop_back();
  SendRoster(2);
  roster_.workers.push_back({.worker = WorkerId{1}, .start = 1, .admitted = 3, .original = false});
  EXPECT_TRUE(SendRoster(3).messages.empty());
  EXPECT_TRUE(Send(Push(0, 0, {0, 1}, 1.0f)).messages.empty());
  EXPECT_EQ(Value(), 0.0f);  // a batch is of two
  const wire::Outbox out = Send(Clocked(0, 1, 1));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].type, MessageType::kRosterAck);
  EXPECT_NE(Value(), 0.0f);
}

TEST_F(ShardTest, ElasticDifferencesAreAddedToTheCentre) {
  Start("easgd:tau=2,mode=async", 2, 2);
  Send(Push(0, 0, {0, 1}, 0.25f));
  EXPECT_EQ(Value(), 0.25f);
}

TEST_F(ShardTest, BspAppliesTheMeanOverTheGlobalBatch) {
  Start("bsp", 2, 2);
  for (uint32_t w = 0; w < 2; ++w) {
    Message push = Push(w, 0, {w, w + 1}, 4.0f);
    push.batch_samples = 2;
    Send(push);
    Send(Clocked(w, 1, 1));
  }
  EXPECT_EQ(Value(), -4.0f);
}

// What a shard does when its gate keeps less than it claims: the ledger must see it.
class ClaimTest : public ShardTest {
 protected:
  // Worker 0 makes up to two steps, as far as its reads are answered, while worker 1 makes none.
  void RunAhead() {
    for (Clock c = 0; !Send(Data(MessageType::kPull, 0, c)).messages.empty() && c < 2; ++c) {
      Send(Push(0, c, {0, 1}, 1.0f));
      Send(Clocked(0, c + 1, 1));
    }
  }
  uint64_t Violations() const { return shard_->ledger().Total().violations; }
};

TEST_F(ClaimTest, WhatTheGateKeepsIsNoViolation) {
  for (const char* policy : {"ssp:s=0", "ssp:s=1", "ssp:s=2", "async", "bsp", "softsync:n=1"}) {
    roster_ = {};
    Start(policy, 2, 2);
    RunAhead();
    EXPECT_EQ(Violations(), 0u) << policy;
  }
}

TEST_F(ClaimTest, ALooserGateThanClaimedIsSeen) {
  for (const char* gate : {"ssp:s=2", "ssp:s=3", "async", "essp:s=2"}) {
    roster_ = {};
    Start(gate, 2, 2, "ssp:s=1");
    RunAhead();
    EXPECT_GE(Violations(), 1u) << gate;
    EXPECT_EQ(shard_->ledger().first_violation()->kind, Violation::Kind::kReadLag);
    EXPECT_EQ(shard_->ledger().first_violation()->clock, 2);
  }
}

TEST_F(ClaimTest, LiveReadsAreNoSnapshots) {
  Start("ssp:s=0", 2, 2, "bsp");
  Send(Push(0, 0, {0, 1}, 1.0f));
  Send(Data(MessageType::kPull, 1, 0));
  EXPECT_EQ(shard_->ledger().first_violation()->kind, Violation::Kind::kSnapshot);
}

TEST_F(ClaimTest, OwnUpdatesThatArePendingAreMissed) {
  Start("softsync:n=1", 2, 2, "async");
  Send(Push(0, 0, {0, 1}, 1.0f));
  Send(Clocked(0, 1, 1));
  Send(Data(MessageType::kPull, 0, 1));
  EXPECT_EQ(shard_->ledger().first_violation()->kind, Violation::Kind::kOwnWrites);
}

TEST_F(ShardTest, TheLedgerCountsReadsAndUpdatesOfEachWorker) {
  Start("async", 2, 2);
  for (uint32_t w = 0; w < 2; ++w) Send(Data(MessageType::kPull, w, 0));
  for (uint32_t w = 0; w < 2; ++w) Send(Push(w, 0, {w, w + 1}, 1.0f));
  const std::vector<Ledger::Row>& rows = shard_->ledger().rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].read_lags.count(), 1u);
  EXPECT_EQ(rows[0].stalenesses.CountIn(0), 1u);
  EXPECT_EQ(rows[1].stalenesses.CountIn(1), 1u);
}

// Three workers, of whom the branch of group 0 has two.
class BranchTest : public ShardTest {
 protected:
  void SetUp() override { Start("tree:group=2,s=1", 3, 3, "", ShardId{1}); }

  wire::Outbox SendValues(Clock clock, float value, uint32_t from = 0, size_t elements = 8) {
    Message reply = Data(MessageType::kPullReply, 0, clock);
    reply.from = Address::Of(ShardId{from});
    reply.payload.push_back(Buffer::CopyOf<float>(std::vector<float>(elements, value)));
    return Send(reply);
  }
};

TEST_F(BranchTest, ARoundGoesUpAsOnePushAndItsValuesComeBack) {
  const Message fetch = Send(Data(MessageType::kPull, 0, 0)).messages.at(0);
  EXPECT_EQ(fetch.type, MessageType::kPull);
  EXPECT_EQ(fetch.to, Address::Of(ShardId{0}));
  EXPECT_EQ(SendValues(0, 5).messages.at(0).payload.at(0).floats()[0], 5);
  Send(Push(0, 0, {0, 1}, 1));
  Send(Push(1, 0, {1, 2}, 2));
  Send(Clocked(0, 1, 1));
  EXPECT_TRUE(Send(Data(MessageType::kPull, 0, 1)).messages.empty());
  const std::vector<Message> up = Send(Clocked(1, 1, 1)).messages;
  ASSERT_EQ(up.size(), 3u);
  EXPECT_EQ(up[0].type, MessageType::kPush);
  EXPECT_EQ(up[0].worker, WorkerId{0});  // the group
  EXPECT_EQ(up[0].leaves, (MicroBatchRange{0, 2}));
  EXPECT_EQ(up[0].samples, 2u);
  EXPECT_EQ(up[0].payload.at(0).floats()[0], 3);
  EXPECT_EQ(up[1].type, MessageType::kClock);
  EXPECT_EQ(up[1].pushes, 1u);
  EXPECT_EQ(up[2].type, MessageType::kPull);
  const Message reply = SendValues(1, 7).messages.at(0);
  EXPECT_EQ(reply.to, Address::Of(WorkerId{0}));
  EXPECT_EQ(reply.clock, 1);
  EXPECT_EQ(reply.payload.at(0).floats()[0], 7);
}

TEST_F(BranchTest, OnlyItsRootsWellFormedValuesCount) {
  Send(Data(MessageType::kPull, 0, 0));
  EXPECT_TRUE(SendValues(0, 5, /*from=*/2).messages.empty());
  EXPECT_TRUE(SendValues(0, 5, 0, /*elements=*/7).messages.empty());
  EXPECT_TRUE(SendValues(1, 5).messages.empty());  // not asked for
  EXPECT_EQ(shard_->stats().rejects, 2u);
  EXPECT_EQ(SendValues(0, 5).messages.size(), 1u);
}

TEST_F(BranchTest, AWorkerOfAnotherGroupIsNoMember) {
  const Message refused = Send(Push(2, 0, {2, 3}, 1)).messages.at(0);
  EXPECT_EQ(refused.type, MessageType::kReject);
}

TEST_F(ShardTest, TheRootTakesBranchesForWorkers) {
  Start("tree:group=2,s=1", 3, 3);
  Message push = Push(1, 0, {2, 3}, 1);
  EXPECT_EQ(Send(push).messages.at(0).type, MessageType::kReject);  // worker 1 is of group 0
  push.from = Address::Of(ShardId{2});
  EXPECT_TRUE(Send(push).messages.empty());
  EXPECT_EQ(Value(), -1.0f);
}

// Of two groups, {0, 1} and {2}.
TEST(GroupRosterTest, AGroupGoesOnWhileAnybodyOfItDoes) {
  const consistency::PolicyTraits traits = *consistency::ParsePolicy("tree:group=2,s=1");
  wire::Roster before, groups;
  const auto next = [&](Epoch epoch, std::initializer_list<wire::Member> workers) {
    wire::Roster roster;
    roster.workers = workers;
    groups = GroupRoster(before, groups, roster, epoch, traits);
    before = roster;
  };
  const wire::Member zero = {.worker = WorkerId{0}, .admitted = 1};
  const wire::Member two = {.worker = WorkerId{2}, .admitted = 1};
  next(1, {zero, two});
  ASSERT_EQ(groups.workers.size(), 2u);
  EXPECT_EQ(groups.workers[1].worker, WorkerId{1});
  const wire::Member late = {.worker = WorkerId{1}, .start = 5, .admitted = 2, .joining = true};
  next(2, {zero, late, two});
  next(3, {late, two});  // the newcomer holds its group's place, and its clock
  EXPECT_EQ(groups.workers[0].admitted, 1u);
  EXPECT_EQ(groups.workers[0].start, 0);
  EXPECT_FALSE(groups.workers[0].joining);
  next(4, {late});
  EXPECT_EQ(groups.workers.size(), 1u);
  const wire::Member again = {.worker = WorkerId{2}, .admitted = 5, .joining = true};
  next(5, {late, again});
  EXPECT_EQ(groups.workers[1].admitted, 5u);
  EXPECT_TRUE(groups.workers[1].joining);
  wire::Member started = again;
  started.joining = false;
  started.start = 9;
  next(6, {late, started});
  EXPECT_EQ(groups.workers[1].admitted, 5u);
  EXPECT_EQ(groups.workers[1].start, 9);
  EXPECT_FALSE(groups.workers[1].joining);
}

TEST_F(ShardTest, OnlyServerZeroMayAskForTheModel) {
  Start("async", 1, 1);
  Message save = Data(MessageType::kSave, 0, 0);
  EXPECT_TRUE(Send(save).messages.empty());
  save.from = Address::Scheduler();
  EXPECT_TRUE(Send(save).messages.empty());
  save.from = Address::Of(ServerId{0});
  save.bucket = BucketId{1000};
  EXPECT_TRUE(Send(save).messages.empty());
  EXPECT_EQ(shard_->stats().rejects, 3u);
  save.bucket = BucketId{0};
  const wire::Outbox answer = Send(save);
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_EQ(answer.messages[0].type, MessageType::kSlices);
  EXPECT_EQ(answer.messages[0].bucket, BucketId{0});
}

TEST_F(ShardTest, ADivergenceIsToldOnceWithWhoAndWhat) {
  Start("bsp", 2, 2);
  for (uint32_t w = 0; w < 2; ++w) {
    const wire::Outbox out = Send(Push(w, 0, {w, w + 1}, w == 1 ? NAN : 1.0f));
    EXPECT_TRUE(w > 0 || out.messages.empty());
  }
  const wire::Outbox first = Send(Clocked(0, 1, 1));
  const wire::Outbox second = Send(Clocked(1, 1, 1));
  std::vector<Message> told;
  for (const wire::Outbox* out : {&first, &second}) {
    for (const Message& message : out->messages) {
      if (message.type == MessageType::kNotFinite) told.push_back(message);
    }
  }
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].to, Address::Scheduler());
  EXPECT_EQ(told[0].clock, 0);
  EXPECT_EQ(std::get<wire::NotFinite>(told[0].body),
            (wire::NotFinite{.worker = 1, .parameters = true, .tensor = "w"}));
  for (uint32_t w = 0; w < 2; ++w) {
    for (const Message& message : Send(Push(w, 1, {w, w + 1}, NAN)).messages) {
      EXPECT_NE(message.type, MessageType::kNotFinite);
    }
  }
}

}  // namespace
}  // namespace soapstone::server
