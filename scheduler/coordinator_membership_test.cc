#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/exit_codes.h"
#include "base/random.h"
#include "scheduler/coordinator.h"
#include "scheduler/hand_played_job.h"
#include "wire/membership/membership.h"

namespace soapstone::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Job = HandPlayedJob;

// ---- Losses while running

TEST(CoordinatorLoss, ASilentWorkerIsLeftOutOfANewRoster) {
  Job job({.servers = 1, .workers = 3});
  job.StartAll();
  job.coordinator().TakeNews();
  job.RunTo(6 * kSecond, {Server(0), Worker(0), Worker(2)});
  EXPECT_EQ(job.coordinator().epoch(), 2u);
  EXPECT_EQ(job.coordinator().phase(), Phase::kRunning);
  EXPECT_THAT(job.ReceiversOf(MessageType::kRoster),
              ElementsAre(Shard(0), Server(0), Worker(0), Worker(2)));
  EXPECT_THAT(RosterWorkers(job.Last(MessageType::kRoster)), ElementsAre(WorkerId{0}, WorkerId{2}));
  EXPECT_THAT(job.coordinator().TakeNews(), ElementsAre("worker 1 lost: no heartbeat for 5.5 s"));
}

TEST(CoordinatorLoss, TheLastWorkerEndsTheJob) {
  Job job({.servers = 1, .workers = 2});
  job.StartAll();
  job.Lose(Worker(1));
  job.Lose(Worker(0));
  EXPECT_EQ(job.coordinator().ended(), (Notice{kExitPeerLost, "worker 0 lost; none left"}));
  EXPECT_THAT(job.ReceiversOf(MessageType::kShutdown), ElementsAre(Server(0), Worker(0)));
}

TEST(CoordinatorLoss, AServerEndsTheJob) {
  Job job({.servers = 2, .workers = 1, .heartbeat_ns = kSecond / 10});
  job.StartAll();
  job.RunTo(6 * kSecond, {Server(0), Worker(0)});
  const Notice why = {kExitPeerLost, "server 1 lost: no heartbeat for 5.1 s"};
  EXPECT_EQ(job.coordinator().ended(), why);
  EXPECT_EQ(job.coordinator().phase(), Phase::kClosing);
  EXPECT_EQ(job.LastNotice(MessageType::kShutdown),
            (Notice{kExitPeerLost, "expelled: was silent for too long"}));
  EXPECT_THAT(job.ReceiversOf(MessageType::kShutdown),
              ElementsAre(Server(0), Worker(0), Server(1)));
}

TEST(CoordinatorLoss, OfADoneWorkerCountsAsDone) {
  Job job({.servers = 1, .workers = 2});
  job.StartAll();
  job.Say(Worker(0), MessageType::kDone, AtClock(10));
  job.Lose(Worker(0));
  EXPECT_EQ(job.coordinator().phase(), Phase::kRunning);
  job.Say(Worker(1), MessageType::kDone, AtClock(10));
  EXPECT_EQ(job.coordinator().phase(), Phase::kEvaluating);
}

TEST(CoordinatorLoss, OfTheLastThatWasNotDoneFinishesTheJob) {
  Job job({.servers = 1, .workers = 2});
  job.StartAll();
  job.Say(Worker(0), MessageType::kDone, AtClock(10));
  job.Lose(Worker(1));
  EXPECT_EQ(job.coordinator().phase(), Phase::kEvaluating);
  EXPECT_THAT(job.ReceiversOf(MessageType::kEvaluate), ElementsAre(Worker(0)));
}

TEST(CoordinatorLoss, OfAStrangerChangesNothing) {
  Job job({.servers = 1, .workers = 2});
  job.StartAll();
  job.Lose(Worker(1));
  job.Clear();
  job.Lose(Worker(1));
  job.Lose(Worker(9));
  EXPECT_THAT(job.sent(), IsEmpty());
}

// ---- Leaving

TEST(CoordinatorLeave, IsConfirmedAndTheOthersGoOn) {
  Job job({.servers = 1, .workers = 3});
  job.StartAll();
  job.coordinator().TakeNews();
  job.Say(Worker(2), MessageType::kLeave, AtClock(17));
  EXPECT_EQ(job.Last(MessageType::kShutdown).to, Worker(2));
  EXPECT_EQ(job.LastNotice(MessageType::kShutdown), (Notice{kExitTerminated, "left"}));
  EXPECT_THAT(RosterWorkers(job.Last(MessageType::kRoster)), ElementsAre(WorkerId{0}, WorkerId{1}));
  EXPECT_THAT(job.coordinator().TakeNews(), ElementsAre("worker 2 left after clock 17"));
  EXPECT_EQ(job.coordinator().progress().at(WorkerId{2}).clock, 17);
}

TEST(CoordinatorLeave, OfTheLastWorkerEndsTheJob) {
  Job job({.servers = 1, .workers = 1});
  job.StartAll();
  job.Say(Worker(0), MessageType::kLeave, AtClock(1));
  EXPECT_EQ(job.coordinator().ended(), (Notice{kExitTerminated, "all workers left"}));
  EXPECT_THAT(job.ReceiversOf(MessageType::kShutdown), ElementsAre(Worker(0), Server(0)));
}

// ---- Joining

class CoordinatorJoin : public ::testing::Test {
 protected:
  // Two of three workers run; rank 1 is free.
  CoordinatorJoin() {
    job_.StartAll();
    job_.Lose(Worker(1));
    job_.AckAll();
    job_.Clear();
    job_.coordinator().TakeNews();
  }
  const wire::Member* Newcomer() {
    return wire::FindMember(job_.coordinator().roster(), WorkerId{1});
  }

  Job job_{{.servers = 2, .workers = 3}};
};

TEST_F(CoordinatorJoin, FirstStepListsTheNewcomerAsJoining) {
  job_.SayHello(Role::kWorker, -1, 77);
  EXPECT_EQ(std::get<wire::Welcome>(job_.Last(MessageType::kWelcome).body).rank, 1u);
  EXPECT_EQ(job_.coordinator().epoch(), 3u);
  ASSERT_NE(Newcomer(), nullptr);
  EXPECT_EQ(*Newcomer(), (wire::Member{.worker = WorkerId{1},
                                       .start = 0,
                                       .admitted = 3,
                                       .joining = true,
                                       .original = false,
                                       .endpoint = "tcp://host",
                                       .key = job_.KeyOf(77)}));
  EXPECT_THAT(
      job_.ReceiversOf(MessageType::kRoster),
      ElementsAre(Shard(0), Shard(1), Server(0), Server(1), Worker(0), Worker(1), Worker(2)));
}

// What was done and lost is not undone: totals only grow, though a successor counts from nothing.
TEST_F(CoordinatorJoin, ASuccessorsCountersAreAddedToItsPredecessors) {
  const auto progress = [this] { return job_.coordinator().progress().at(WorkerId{1}); };
  for (uint64_t life = 1; life <= 3; ++life) {
    job_.SayHello(Role::kWorker, 1, 70 + life);
    job_.AckAll(5);
    job_.AckAll(5);
    for (const uint64_t samples : {4u, 10u}) {
      job_.Say(Worker(1), MessageType::kHeartbeat,
               wire::Progress{.clock = 6, .samples = samples, .loss_sum = 3, .read_lags = {0, 2}});
      EXPECT_EQ(progress().samples, 10 * (life - 1) + samples);
    }
    EXPECT_EQ(progress().clock, 6);
    EXPECT_EQ(progress().loss_sum, 3.0 * static_cast<double>(life));
    EXPECT_EQ(progress().read_lags, (std::vector<uint64_t>{0, 2 * life}));
    job_.Lose(Worker(1));
    job_.AckAll(5);
  }
}

TEST_F(CoordinatorJoin, SecondStepStartsItAtTheHighestFrontier) {
  job_.SayHello(Role::kWorker, 1, 77);
  job_.Ack(0, 5);
  EXPECT_EQ(job_.coordinator().epoch(), 3u);
  job_.Ack(1, 8);
  EXPECT_EQ(job_.coordinator().epoch(), 4u);
  EXPECT_EQ(*Newcomer(), (wire::Member{.worker = WorkerId{1},
                                       .start = 8,
                                       .admitted = 3,
                                       .joining = false,
                                       .original = false,
                                       .endpoint = "tcp://host",
                                       .key = job_.KeyOf(77)}));
  job_.Ack(0, 5);
  EXPECT_THAT(job_.ReceiversOf(MessageType::kStart), IsEmpty());
  job_.Ack(1, 8);
  EXPECT_THAT(job_.ReceiversOf(MessageType::kStart), ElementsAre(Worker(1)));
  EXPECT_EQ(job_.Last(MessageType::kStart).clock, 8);
  EXPECT_EQ(job_.Last(MessageType::kStart).epoch, 4u);
  EXPECT_THAT(job_.coordinator().TakeNews(),
              ElementsAre("worker 1 asks to join", "worker 1 joined at clock 8"));
}

TEST_F(CoordinatorJoin, AcknowledgementsOfEarlierRostersDoNotCount) {
  Message old;
  old.type = MessageType::kRosterAck;
  old.session = kSession;
  old.epoch = job_.coordinator().epoch();
  old.clock = 4;
  job_.SayHello(Role::kWorker, 1, 77);
  for (uint32_t k = 0; k < 2; ++k) {
    old.from = Shard(k);
    job_.Deliver(old);
  }
  EXPECT_TRUE(Newcomer()->joining);
}

TEST_F(CoordinatorJoin, ALossOfAnotherMeanwhileDoesNotStopIt) {
  job_.SayHello(Role::kWorker, 1, 77);
  job_.Ack(0, 5);
  job_.Lose(Worker(2));
  EXPECT_EQ(job_.coordinator().epoch(), 4u);
  EXPECT_TRUE(Newcomer()->joining);
  job_.Ack(1, 6);
  EXPECT_EQ(job_.coordinator().epoch(), 5u);
  EXPECT_EQ(Newcomer()->start, 6);
  job_.AckAll(6);
  EXPECT_THAT(job_.ReceiversOf(MessageType::kStart), ElementsAre(Worker(1)));
}

TEST_F(CoordinatorJoin, IsCancelledWhenTheNewcomerIsLost) {
  job_.SayHello(Role::kWorker, 1, 77);
  job_.Ack(0, 5);
  job_.Lose(Worker(1));
  EXPECT_EQ(Newcomer(), nullptr);
  job_.AckAll(5);
  EXPECT_EQ(job_.coordinator().epoch(), 4u);
  EXPECT_THAT(job_.ReceiversOf(MessageType::kStart), IsEmpty());
}

TEST_F(CoordinatorJoin, IsCancelledInItsSecondStepToo) {
  job_.SayHello(Role::kWorker, 1, 77);
  job_.AckAll(5);
  job_.Lose(Worker(1));
  EXPECT_EQ(Newcomer(), nullptr);
  job_.AckAll(5);
  EXPECT_THAT(job_.ReceiversOf(MessageType::kStart), IsEmpty());
}

// A link's timeout is longer than that of its node.
TEST_F(CoordinatorJoin, IsNotCancelledByWordOfTheFormerHoldersLink) {
  job_.SayHello(Role::kWorker, 1, 77);
  ASSERT_NE(Newcomer(), nullptr);
  job_.Lose(Worker(1), /*heard=*/1);
  EXPECT_NE(Newcomer(), nullptr);
  job_.Lose(Worker(1), /*heard=*/3);
  EXPECT_EQ(Newcomer(), nullptr);
}

TEST_F(CoordinatorJoin, TheNextWaitsUntilTheFirstIsIn) {
  job_.Lose(Worker(2));
  job_.AckAll(5);
  job_.SayHello(Role::kWorker, 2, 77);
  job_.SayHello(Role::kWorker, 1, 78);
  EXPECT_EQ(Newcomer(), nullptr);
  job_.AckAll(5);
  job_.AckAll(5);
  EXPECT_THAT(job_.ReceiversOf(MessageType::kStart), ElementsAre(Worker(2)));
  ASSERT_NE(Newcomer(), nullptr);
  EXPECT_TRUE(Newcomer()->joining);
  EXPECT_EQ(Newcomer()->admitted, job_.coordinator().epoch());
}

TEST_F(CoordinatorJoin, HoldsTheEndOfTheJobUp) {
  job_.SayHello(Role::kWorker, 1, 77);
  job_.Say(Worker(0), MessageType::kDone, AtClock(10));
  job_.Say(Worker(2), MessageType::kDone, AtClock(10));
  EXPECT_EQ(job_.coordinator().phase(), Phase::kRunning);
  job_.AckAll(9);
  job_.AckAll(9);
  EXPECT_EQ(job_.coordinator().phase(), Phase::kRunning);
  job_.Say(Worker(1), MessageType::kDone, AtClock(10));
  EXPECT_EQ(job_.coordinator().phase(), Phase::kEvaluating);
}

TEST_F(CoordinatorJoin, AFinishedJobGoesOnWhenTheNewcomerIsLost) {
  job_.SayHello(Role::kWorker, 1, 77);
  job_.Say(Worker(0), MessageType::kDone, AtClock(10));
  job_.Say(Worker(2), MessageType::kDone, AtClock(10));
  job_.Lose(Worker(1));
  EXPECT_EQ(job_.coordinator().phase(), Phase::kEvaluating);
}

TEST_F(CoordinatorJoin, ANewcomerThatHasNotStartedDoesNotKeepTheJobAlive) {
  job_.SayHello(Role::kWorker, 1, 77);
  job_.AckAll(5);
  job_.Lose(Worker(0));
  job_.Lose(Worker(2));
  EXPECT_EQ(job_.coordinator().ended(), (Notice{kExitPeerLost, "worker 2 lost; none left"}));
}

TEST_F(CoordinatorJoin, AShardThatDoesNotAnswerEndsTheJob) {
  job_.SayHello(Role::kWorker, 1, 77);
  job_.Ack(1, 5);
  job_.RunTo(60 * kSecond, job_.Everybody());
  EXPECT_EQ(job_.coordinator().ended(),
            (Notice{kExitPeerLost, "shard 0 has not taken roster 3 for 60 s"}));
}

// Nor may the second roster of an admission go unanswered: that with the newcomer's start clock.
TEST_F(CoordinatorJoin, AShardThatDoesNotAnswerTheSecondTimeEndsTheJob) {
  job_.SayHello(Role::kWorker, 1, 77);
  job_.RunTo(50 * kSecond, job_.Everybody());
  job_.AckAll(5);
  job_.Ack(0, 5);
  job_.RunTo(109 * kSecond, job_.Everybody());
  EXPECT_FALSE(job_.coordinator().ended().has_value());
  job_.RunTo(111 * kSecond, job_.Everybody());
  EXPECT_EQ(job_.coordinator().ended(),
            (Notice{kExitPeerLost, "shard 1 has not taken roster 4 for 60 s"}));
}

// Its holder may have died just now: the newcomer waits until that is known.
TEST_F(CoordinatorJoin, ATakenRankIsWaitedForWhileTheJobRuns) {
  job_.SayHello(Role::kWorker, 0, 77);
  EXPECT_EQ(job_.ReceiversOf(MessageType::kRefuse).size(), 0u);
  EXPECT_EQ(job_.Last(MessageType::kWait).to, Temporary(Role::kWorker, 77));
  job_.Lose(Worker(0));
  job_.SayHello(Role::kWorker, 0, 77);
  EXPECT_EQ(std::get<wire::Welcome>(job_.Last(MessageType::kWelcome).body).rank, 0u);
}

TEST_F(CoordinatorJoin, AServerCannotJoinARunningJob) {
  job_.SayHello(Role::kServer, -1, 77);
  EXPECT_EQ(job_.LastNotice(MessageType::kRefuse),
            (Notice{kExitPeerLost, "the job is running: a server cannot join it"}));
}

TEST_F(CoordinatorJoin, NobodyJoinsAJobThatIsEnding) {
  job_.Say(Worker(0), MessageType::kDone, AtClock(10));
  job_.Say(Worker(2), MessageType::kDone, AtClock(10));
  job_.SayHello(Role::kWorker, 1, 77);
  EXPECT_EQ(job_.LastNotice(MessageType::kRefuse),
            (Notice{kExitPeerLost, "the job is ending: nobody can join it any more"}));
}

TEST(CoordinatorJoinEarly, ANewcomerDuringTheInstallationIsAdmittedAfterIt) {
  Job job({.servers = 1, .workers = 2});
  job.RegisterAll();
  job.Lose(Worker(0));
  job.SayHello(Role::kWorker, 0, 77);
  EXPECT_THAT(RosterWorkers(job.Last(MessageType::kRoster)), ElementsAre(WorkerId{1}));
  job.AckAll();
  EXPECT_THAT(job.ReceiversOf(MessageType::kStart), ElementsAre(Worker(1)));
  job.AckAll();
  job.AckAll();
  EXPECT_THAT(job.ReceiversOf(MessageType::kStart), ElementsAre(Worker(1), Worker(0)));
}

// ---- Any order of events

// What must hold between a coordinator before an event, and after it with what it sent.
void CheckStep(const Coordinator& before, const Coordinator& after,
               const std::vector<Message>& sent) {
  EXPECT_GE(after.epoch(), before.epoch());
  if (before.ended().has_value()) {
    EXPECT_EQ(after.ended(), before.ended());
    EXPECT_EQ(after.epoch(), before.epoch());
  }
  int joining = 0;
  for (const wire::Member& member : after.roster().workers) {
    joining += member.joining ? 1 : 0;
    EXPECT_LE(member.admitted, after.epoch());
    const wire::Member* then = wire::FindMember(before.roster(), member.worker);
    if (then == nullptr || then->admitted != member.admitted) {
      EXPECT_GT(member.admitted, before.epoch());
    } else if (!then->joining) {
      EXPECT_EQ(*then, member);
    }
  }
  EXPECT_LE(joining, 1);
  for (const Message& message : sent) {
    EXPECT_LE(message.epoch, after.epoch());
    const bool farewell =
        message.type == MessageType::kShutdown || message.type == MessageType::kRefuse;
    EXPECT_TRUE(farewell || !before.ended().has_value());
    if (message.type == MessageType::kStart) {
      const wire::Member* member = wire::FindMember(after.roster(), WorkerId{message.to.index});
      ASSERT_NE(member, nullptr);
      EXPECT_FALSE(member->joining);
      EXPECT_EQ(message.clock, member->start);
    }
  }
}

TEST(CoordinatorFuzz, AnyOrderOfEventsKeepsTheInvariants) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const CounterRandom random(seed, RandomUse::kTest);
    Job job({.servers = 2, .workers = 3});
    job.RegisterAll();
    uint64_t draw = 0;
    for (int step = 0; step < 120; ++step) {
      const Coordinator before = job.coordinator();
      job.Clear();
      const auto below = [&](uint64_t bound) {
        return static_cast<uint32_t>(random.Below(draw++, bound));
      };
      const Address worker = Worker(below(3));
      switch (below(12)) {
        case 0:
          job.Lose(worker);
          break;
        case 1:
          job.SayHello(Role::kWorker, static_cast<int64_t>(below(4)) - 1, 3000 + below(200));
          break;
        case 2:
          job.Say(worker, MessageType::kHeartbeat, AtClock(step));
          break;
        case 3:
          if (below(4) == 0) job.Say(worker, MessageType::kLeave, AtClock(step));
          break;
        case 4:
          if (below(3) == 0) job.Say(worker, MessageType::kDone, AtClock(step));
          break;
        case 5:
          job.Say(worker, MessageType::kEvaluated, wire::Evaluation{});
          break;
        case 6:
          if (below(8) == 0) job.Say(Server(below(2)), MessageType::kSaved, wire::Saved{});
          break;
        default:
          job.Ack(below(2), step);
          break;
      }
      CheckStep(before, job.coordinator(), job.sent());
      if (::testing::Test::HasFailure()) FAIL() << "seed " << seed << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace soapstone::scheduler
