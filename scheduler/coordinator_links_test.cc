#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/exit_codes.h"
#include "scheduler/coordinator.h"
#include "scheduler/hand_played_job.h"
#include "wire/membership/membership.h"

namespace soapstone::scheduler {
namespace {

using ::testing::ElementsAre;
using Job = HandPlayedJob;

// ---- Links lost between two that both live

class CoordinatorLinks : public ::testing::Test {
 protected:
  CoordinatorLinks() {
    job_.StartAll();
    job_.coordinator().TakeNews();
  }
  // `node` says so at `at`.
  void LoseLink(Nanos at, Address node, Address other) {
    job_.RunTo(at, job_.Everybody());
    SayLost(node, other, job_.coordinator().epoch());
  }
  // By the roster of that epoch.
  void SayLost(Address node, Address other, Epoch epoch) {
    Message message;
    message.type = MessageType::kLinkLost;
    message.from = node;
    message.session = kSession;
    message.epoch = epoch;
    message.body = wire::LostLink{other, "cut"};
    job_.Deliver(message);
  }
  Job job_{{.servers = 2, .workers = 3, .heartbeat_ns = kSecond / 10}};
};

TEST_F(CoordinatorLinks, OfAWorkerAndAServerTheWorkerIsCountedOut) {
  LoseLink(kSecond, Server(1), Worker(2));
  job_.RunTo(3 * kSecond, job_.Everybody());
  EXPECT_THAT(
      job_.coordinator().TakeNews(),
      ElementsAre("the link between server 1 and worker 2 is lost (cut): worker 2 is counted out"));
  EXPECT_EQ(job_.LastNotice(MessageType::kShutdown).code, kExitPeerLost);
  EXPECT_FALSE(job_.coordinator().ended().has_value());
}

// Quiet links are asked now and then: the second report may come a second later.
TEST_F(CoordinatorLinks, OfTwoWorkersTheOneThatLostMoreThoughThatIsHeardLater) {
  LoseLink(kSecond, Worker(1), Worker(0));
  LoseLink(2 * kSecond, Worker(2), Worker(0));
  job_.RunTo(4 * kSecond, job_.Everybody());
  EXPECT_THAT(
      job_.coordinator().TakeNews(),
      ElementsAre("the link between worker 0 and worker 1 is lost (cut): worker 0 is counted out"));
}

TEST_F(CoordinatorLinks, OfTwoWorkersElseTheOneOfTheHigherRank) {
  LoseLink(kSecond, Worker(0), Worker(1));
  job_.RunTo(3 * kSecond, job_.Everybody());
  EXPECT_THAT(
      job_.coordinator().TakeNews(),
      ElementsAre("the link between worker 0 and worker 1 is lost (cut): worker 1 is counted out"));
}

// With a second between two ticks.
TEST(CoordinatorSettles, WhenItsPatienceIsOverAndNotAtTheNextTick) {
  Job job({.servers = 1, .workers = 2, .heartbeat_ns = kSecond});
  job.StartAll();
  job.coordinator().TakeNews();
  job.RunTo(11 * kSecond / 10, job.Everybody());
  Message message;
  message.type = MessageType::kLinkLost;
  message.from = Server(0);
  message.session = kSession;
  message.epoch = job.coordinator().epoch();
  message.body = wire::LostLink{Worker(1), "cut"};
  job.Deliver(message);
  EXPECT_TRUE(job.coordinator().TakeNews().empty());
  job.RunTo(22 * kSecond / 10, job.Everybody());
  EXPECT_TRUE(job.coordinator().TakeNews().empty());
  job.RunTo(24 * kSecond / 10, job.Everybody());
  EXPECT_THAT(job.coordinator().TakeNews(),
              ElementsAre("the link between server 0 and worker 1 is lost "
                          "(cut): worker 1 is counted out"));
}

// The second pair is reported half a second after the first, and waits no longer for it.
TEST(CoordinatorSettles, EachPairByItself) {
  Job job({.servers = 1, .workers = 3, .heartbeat_ns = kSecond});
  job.StartAll();
  Message message;
  message.type = MessageType::kLinkLost;
  message.from = Server(0);
  message.session = kSession;
  message.epoch = job.coordinator().epoch();
  for (const uint32_t worker : {2u, 1u}) {
    job.RunTo((21 - 5 * worker) * kSecond / 10, job.Everybody());
    message.body = wire::LostLink{Worker(worker), "cut"};
    job.Deliver(message);
  }
  job.RunTo(24 * kSecond / 10, job.Everybody());
  EXPECT_EQ(job.coordinator().roster().workers.size(), 2u);
  job.RunTo(29 * kSecond / 10, job.Everybody());
  EXPECT_EQ(job.coordinator().roster().workers.size(), 1u);
}

// Its link to the scheduler is found lost before the pair is judged, and another takes its rank.
TEST_F(CoordinatorLinks, WhatWasSaidOfWhoIsCountedOutIsNotOfTheNextHolder) {
  LoseLink(kSecond, Server(0), Worker(1));
  job_.Lose(Worker(1));
  job_.SayHello(Role::kWorker, 1, 77);
  job_.RunTo(4 * kSecond, job_.Everybody());
  EXPECT_NE(wire::FindMember(job_.coordinator().roster(), WorkerId{1}), nullptr);
}

// Until it has heard of the new holder, a node speaks of the former.
TEST_F(CoordinatorLinks, WhatIsSaidBeforeTheNewHoldersRosterIsOfTheFormer) {
  job_.RunTo(kSecond, job_.Everybody());
  job_.Lose(Worker(1));
  const Epoch without = job_.coordinator().epoch();
  job_.SayHello(Role::kWorker, 1, 77);
  SayLost(Server(0), Worker(1), without);
  job_.RunTo(4 * kSecond, job_.Everybody());
  EXPECT_NE(wire::FindMember(job_.coordinator().roster(), WorkerId{1}), nullptr);
}

// Both ranks have new holders, who are let in one after the other: the first one's roster says
// nothing of the second one.
TEST_F(CoordinatorLinks, WhatIsSaidByARosterThatDoesNotNameTheNewHolderIsOfTheFormer) {
  job_.RunTo(kSecond, job_.Everybody());
  job_.Lose(Worker(1));
  job_.Lose(Worker(2));
  job_.SayHello(Role::kWorker, 1, 77);
  job_.SayHello(Role::kWorker, 2, 78);
  ASSERT_NE(wire::FindMember(job_.coordinator().roster(), WorkerId{1}), nullptr);
  const Epoch before = job_.coordinator().epoch();
  LoseLink(kSecond, Server(0), Worker(2));  // it waits yet
  job_.AckAll();
  job_.AckAll();
  job_.AckAll();
  job_.AckAll();
  ASSERT_NE(wire::FindMember(job_.coordinator().roster(), WorkerId{2}), nullptr);
  SayLost(Server(1), Worker(2), before);
  job_.RunTo(4 * kSecond, job_.Everybody());
  EXPECT_NE(wire::FindMember(job_.coordinator().roster(), WorkerId{2}), nullptr);
}

TEST_F(CoordinatorLinks, OfTwoServersNoneCanBeSpared) {
  LoseLink(kSecond, Server(0), Server(1));
  job_.RunTo(3 * kSecond, job_.Everybody());
  EXPECT_EQ(job_.coordinator().ended(),
            (Notice{kExitPeerLost, "the link between server 0 and server 1 is lost (cut)"}));
}

// The scheduler's own, of one that was heard a moment ago.
TEST_F(CoordinatorLinks, OfTheSchedulersOwnTheLineNamesBothEnds) {
  job_.RunTo(kSecond, job_.Everybody());
  job_.Lose(Worker(1));
  EXPECT_THAT(job_.coordinator().TakeNews(),
              ElementsAre("worker 1 lost: its link to the scheduler cannot be made again"));
}

TEST_F(CoordinatorLinks, WhatItSaidItselfIsTheReason) {
  job_.RunTo(kSecond, job_.Everybody());
  wire::Outbox out;
  job_.coordinator().OnLost(kSecond, Server(1), kLastEpoch, &out, "stopped by a signal");
  EXPECT_EQ(job_.coordinator().ended(),
            (Notice{kExitPeerLost, "server 1 lost: stopped by a signal"}));
}

}  // namespace
}  // namespace soapstone::scheduler
