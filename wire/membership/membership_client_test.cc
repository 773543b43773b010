#include "wire/membership/membership_client.h"

#include <gtest/gtest.h>

#include "base/exit_codes.h"

namespace soapstone::wire {
namespace {

constexpr uint64_t kNonce = 0x1234567890;
constexpr uint64_t kSession = 99;

MembershipClientOptions WorkerOptions() {
  return {.role = Role::kWorker,
          .wanted_rank = 2,
          .nonce = kNonce,
          .config_digest = 7,
          .scheduler = "tcp://head:5555"};
}

Message FromScheduler(MessageType type, Body body = {}, uint64_t session = kSession) {
  Message message;
  message.type = type;
  message.from = Address::Scheduler();
  message.session = session;
  message.body = std::move(body);
  return message;
}

// An MembershipClient whose timers fire when they are due.
class Node {
 public:
  explicit Node(MembershipClientOptions options) : membership_(std::move(options)) {
    membership_.Start(now_, &outbox_);
    Collect();
  }

  // Lets time pass until `until`, or until the membership asks for no more.
  void RunTo(Nanos until) {
    while (due_ >= 0 && due_ <= until) Fire(due_);
    now_ = until;
  }
  void Fire(Nanos at) {
    now_ = at;
    due_ = -1;
    membership_.OnTimer(now_, progress_, &outbox_);
    Collect();
  }
  void Take(const Message& message) {
    membership_.OnMessage(now_, message, &outbox_);
    Collect();
  }
  void LoseLink() {
    membership_.OnLinkLost(now_, "cut", &outbox_);
    Collect();
  }
  bool TakesCall() { return membership_.TakeCall(); }
  void BeWelcomed() { Take(FromScheduler(MessageType::kWelcome, Welcome{2, kNonce})); }
  // As RunTo, with an answer from the scheduler every half second.
  void RunHeardTo(Nanos until) {
    while (now_ + kSecond / 2 <= until) {
      RunTo(now_ + kSecond / 2);
      Take(FromScheduler(MessageType::kHeartbeatAck));
    }
  }

  const MembershipClient& membership() const { return membership_; }
  const Message& last() const { return sent_.back(); }
  size_t CountOf(MessageType type) const {
    size_t count = 0;
    for (const Message& message : sent_) count += message.type == type ? 1 : 0;
    return count;
  }
  void set_progress(const Progress& progress) { progress_ = progress; }

 private:
  void Collect() {
    for (Message& message : outbox_.messages) sent_.push_back(std::move(message));
    for (const TimerRequest& timer : outbox_.timers) {
      EXPECT_EQ(timer.id, MembershipClient::kTick);
      EXPECT_GT(timer.at, now_);
      due_ = timer.at;
    }
    outbox_ = {};
  }

  MembershipClient membership_;
  Nanos now_ = 0;
  Nanos due_ = -1;
  Outbox outbox_;
  std::vector<Message> sent_;
  Body progress_;
};

TEST(MembershipClient, SaysHelloFromATemporaryAddressWithAllItIsAskedFor) {
  const Node node(WorkerOptions());
  ASSERT_EQ(node.CountOf(MessageType::kHello), 1u);
  EXPECT_EQ(node.last().from, (Address{Role::kWorker, 0x80000000u | 0x34567890u}));
  EXPECT_EQ(node.last().from, node.membership().temporary_address());
  EXPECT_EQ(node.last().to, Address::Scheduler());
  EXPECT_EQ(std::get<Hello>(node.last().body), (Hello{Role::kWorker, 2, "", kNonce, 7}));
}

TEST(MembershipClient, RepeatsHelloAndNothingElseUntilWelcomed) {
  Node node(WorkerOptions());
  node.RunTo(2 * kSecond);
  EXPECT_EQ(node.CountOf(MessageType::kHello), 5u);
  EXPECT_EQ(node.CountOf(MessageType::kHeartbeat), 0u);
}

TEST(MembershipClient, WhoIsToWaitAsksAgainAndSaysNowAndThenWhatFor) {
  MembershipClient client(WorkerOptions());
  Outbox out;
  client.Start(0, &out);
  EXPECT_EQ(client.TakeWaitLine(0), "");
  MembershipClient alone(WorkerOptions());
  EXPECT_EQ(alone.TakeWaitLine(9 * kSecond), "");  // it prepares, and has not asked yet
  alone.Start(10 * kSecond, &out);
  EXPECT_EQ(alone.TakeWaitLine(15 * kSecond),
            "waiting for a place (5 of 60 s): no answer from the scheduler at tcp://head:5555: it "
            "is not there, or not "
            "reached, or one of us has other keys, or none");
  const Message wait = FromScheduler(MessageType::kWait, Notice{138, "rank 2 is taken"}, 0);
  client.OnMessage(kSecond, wait, &out);
  EXPECT_EQ(client.TakeWaitLine(kSecond), "waiting for a place (1 of 60 s): rank 2 is taken");
  EXPECT_EQ(client.TakeWaitLine(2 * kSecond), "");
  EXPECT_EQ(client.TakeWaitLine(6 * kSecond), "waiting for a place (6 of 60 s): rank 2 is taken");
  client.OnMessage(7 * kSecond, FromScheduler(MessageType::kWelcome, Welcome{2, kNonce}), &out);
  client.OnMessage(8 * kSecond, wait, &out);  // late
  EXPECT_EQ(client.TakeWaitLine(20 * kSecond), "");
  EXPECT_FALSE(client.ended().has_value());
}

TEST(MembershipClient, WaitingForAPlaceEndsAtTheStartTimeoutWithItsReason) {
  Node node(WorkerOptions());
  node.RunTo(30 * kSecond);
  node.Take(FromScheduler(MessageType::kWait, Notice{138, "rank 2 is taken"}, 0));
  EXPECT_FALSE(node.membership().ended().has_value());
  node.RunTo(60 * kSecond);
  EXPECT_EQ(node.membership().ended(),
            (Notice{kExitPeerLost, "no place for 60 s: rank 2 is taken"}));
}

TEST(MembershipClient, WelcomeGivesRankAndSessionAndStartsHeartbeats) {
  Node node(WorkerOptions());
  node.set_progress({.clock = 5});
  node.BeWelcomed();
  EXPECT_EQ(node.membership().rank(), 2u);
  EXPECT_EQ(node.membership().session(), kSession);
  node.RunTo(kSecond);
  EXPECT_EQ(node.CountOf(MessageType::kHello), 1u);
  EXPECT_EQ(node.CountOf(MessageType::kHeartbeat), 2u);
  EXPECT_EQ(node.last().from, Address::Of(WorkerId{2}));
  EXPECT_EQ(node.last().session, kSession);
  EXPECT_EQ(std::get<Progress>(node.last().body).clock, 5);
}

TEST(MembershipClient, AServersHeartbeatHasNoProgress) {
  Node node({.role = Role::kServer, .endpoint = "tcp://a:1", .nonce = kNonce});
  EXPECT_EQ(std::get<Hello>(node.last().body).endpoint, "tcp://a:1");
  node.BeWelcomed();
  node.RunTo(kSecond);
  EXPECT_EQ(node.last().from, Address::Of(ServerId{2}));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(node.last().body));
}

TEST(MembershipClient, HeartbeatsCarryTheNewestEpochHeardOf) {
  Node node(WorkerOptions());
  node.BeWelcomed();
  Message roster = FromScheduler(MessageType::kRoster, Roster{});
  roster.epoch = 4;
  node.Take(roster);
  node.RunTo(kSecond);
  EXPECT_EQ(node.last().epoch, 4u);
}

TEST(MembershipClient, AnotherProcessesWelcomeIsIgnored) {
  Node node(WorkerOptions());
  node.Take(FromScheduler(MessageType::kWelcome, Welcome{0, kNonce + 1}));
  EXPECT_FALSE(node.membership().rank().has_value());
}

TEST(MembershipClient, ASecondWelcomeChangesNothing) {
  Node node(WorkerOptions());
  node.BeWelcomed();
  node.Take(FromScheduler(MessageType::kWelcome, Welcome{0, kNonce}));
  EXPECT_EQ(node.membership().rank(), 2u);
}

TEST(MembershipClient, ARefusalEndsItWithItsCode) {
  Node node(WorkerOptions());
  node.Take(FromScheduler(MessageType::kRefuse, Notice{kExitConfig, "rank 2 is taken"}));
  EXPECT_EQ(node.membership().ended(), (Notice{kExitConfig, "rank 2 is taken"}));
  node.RunTo(10 * kSecond);
  EXPECT_EQ(node.CountOf(MessageType::kHello), 1u);
}

TEST(MembershipClient, ARefusalAfterWelcomeIsIgnored) {
  Node node(WorkerOptions());
  node.BeWelcomed();
  node.Take(FromScheduler(MessageType::kRefuse, Notice{kExitConfig, "rank 2 is taken"}));
  EXPECT_FALSE(node.membership().ended().has_value());
}

TEST(MembershipClient, GivesUpWhenNotWelcomedInTime) {
  Node node(WorkerOptions());
  node.RunTo(60 * kSecond - 1);
  EXPECT_FALSE(node.membership().ended().has_value());
  node.RunTo(60 * kSecond);
  EXPECT_EQ(node.membership().ended(),
            (Notice{kExitPeerLost,
                    "no answer from the scheduler at tcp://head:5555 for 60 s: it is "
                    "not there, or not reached, or one of us has other keys, or none"}));
}

TEST(MembershipClient, ASilentSchedulerIsLost) {
  Node node(WorkerOptions());
  node.BeWelcomed();
  node.RunHeardTo(20 * kSecond);
  EXPECT_FALSE(node.membership().ended().has_value());
  node.RunTo(25 * kSecond - 1);
  EXPECT_FALSE(node.membership().ended().has_value());
  node.RunTo(25 * kSecond);
  EXPECT_EQ(node.membership().ended(), (Notice{kExitPeerLost, "scheduler lost: silent for 5.0 s"}));
}

TEST(MembershipClient, AnyMessageOfTheSchedulerIsASignOfLife) {
  Node node(WorkerOptions());
  node.BeWelcomed();
  node.RunTo(4 * kSecond);
  node.Take(FromScheduler(MessageType::kRoster, Roster{}));
  node.RunTo(8 * kSecond);
  EXPECT_FALSE(node.membership().ended().has_value());
}

TEST(MembershipClient, ASchedulerOfAnotherSessionIsAsGoodAsSilent) {
  Node node(WorkerOptions());
  node.BeWelcomed();
  node.RunTo(4 * kSecond);
  node.Take(FromScheduler(MessageType::kHeartbeatAck, {}, kSession + 1));
  node.Take(FromScheduler(MessageType::kShutdown, Notice{0, "done"}, kSession + 1));
  node.RunTo(5 * kSecond);
  ASSERT_TRUE(node.membership().ended().has_value());
  EXPECT_EQ(node.membership().ended()->code, kExitPeerLost);
}

TEST(MembershipClient, OurOwnPauseIsNotTheSchedulersSilence) {
  Node node(WorkerOptions());
  node.BeWelcomed();
  node.Fire(30 * kSecond);  // suspended meanwhile
  EXPECT_FALSE(node.membership().ended().has_value());
  node.RunTo(36 * kSecond);
  EXPECT_TRUE(node.membership().ended().has_value());
}

TEST(MembershipClient, WithoutItsLinkToTheSchedulerItAsksOnceMoreAndEnds) {
  Node node(WorkerOptions());
  node.BeWelcomed();
  node.RunHeardTo(kSecond);
  const size_t said = node.CountOf(MessageType::kHeartbeat);
  node.LoseLink();
  EXPECT_EQ(node.CountOf(MessageType::kHeartbeat), said + 1);
  EXPECT_FALSE(node.membership().ended().has_value());
  node.RunTo(2 * kSecond + kSecond / 10);
  EXPECT_EQ(node.membership().ended(), (Notice{kExitPeerLost, "scheduler lost: cut"}));
}

// As of one that is started again.
TEST(MembershipClient, WhoHasNoPlaceYetCallsTheSchedulerThatIsThereNext) {
  Node node(WorkerOptions());
  node.Take(FromScheduler(MessageType::kWait, Notice{138, "rank 2 is taken"}, 0));
  EXPECT_FALSE(node.membership().unanswered());
  EXPECT_FALSE(node.TakesCall());
  node.LoseLink();
  EXPECT_TRUE(node.TakesCall());
  EXPECT_FALSE(node.TakesCall());
  EXPECT_TRUE(node.membership().unanswered());
  node.RunTo(10 * kSecond);
  EXPECT_FALSE(node.membership().ended().has_value());
  node.BeWelcomed();
  EXPECT_TRUE(node.membership().rank().has_value());
  node.LoseLink();
  EXPECT_FALSE(node.TakesCall());
}

TEST(MembershipClient, WhatTheSchedulerSaysToThatIsTheReason) {
  Node node(WorkerOptions());
  node.BeWelcomed();
  node.LoseLink();
  node.Take(FromScheduler(MessageType::kShutdown, Notice{kExitPeerLost, "expelled"}));
  node.RunTo(5 * kSecond);
  EXPECT_EQ(node.membership().ended(), (Notice{kExitPeerLost, "expelled"}));
}

TEST(MembershipClient, ShutdownEndsItWithItsCode) {
  Node node(WorkerOptions());
  node.BeWelcomed();
  node.Take(FromScheduler(MessageType::kShutdown, Notice{0, "done"}));
  EXPECT_EQ(node.membership().ended(), (Notice{0, "done"}));
  node.RunTo(kSecond);
  EXPECT_EQ(node.CountOf(MessageType::kHeartbeat), 0u);
}

TEST(MembershipClient, ShutdownCountsBeforeWelcomeToo) {
  Node node(WorkerOptions());
  node.Take(FromScheduler(MessageType::kShutdown, Notice{kExitPeerLost, "server 1 lost"}));
  EXPECT_EQ(node.membership().ended()->code, kExitPeerLost);
}

TEST(MembershipClient, TheFirstEndStands) {
  Node node(WorkerOptions());
  node.BeWelcomed();
  node.Take(FromScheduler(MessageType::kShutdown, Notice{0, "done"}));
  node.Take(FromScheduler(MessageType::kShutdown, Notice{kExitPeerLost, "late"}));
  EXPECT_EQ(node.membership().ended(), (Notice{0, "done"}));
}

TEST(MembershipClient, OnlyTheSchedulerIsListenedTo) {
  Node node(WorkerOptions());
  Message forged = FromScheduler(MessageType::kShutdown, Notice{0, "done"});
  forged.from = Address::Of(WorkerId{1});
  node.Take(forged);
  EXPECT_FALSE(node.membership().ended().has_value());
}

}  // namespace
}  // namespace soapstone::wire
