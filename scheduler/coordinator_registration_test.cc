#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/exit_codes.h"
#include "scheduler/coordinator.h"
#include "scheduler/hand_played_job.h"

namespace soapstone::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Job = HandPlayedJob;

TEST(CoordinatorRegistration, GivesWantedRanksAndElseTheLowestFree) {
  Job job({.servers = 1, .workers = 3});
  job.SayHello(Role::kWorker, 1, 11);
  EXPECT_EQ(job.Last(MessageType::kWelcome).to, Temporary(Role::kWorker, 11));
  EXPECT_EQ(std::get<wire::Welcome>(job.Last(MessageType::kWelcome).body), (wire::Welcome{1, 11}));
  job.SayHello(Role::kWorker, -1, 12);
  EXPECT_EQ(std::get<wire::Welcome>(job.Last(MessageType::kWelcome).body).rank, 0u);
  job.SayHello(Role::kWorker, -1, 13);
  EXPECT_EQ(std::get<wire::Welcome>(job.Last(MessageType::kWelcome).body).rank, 2u);
  EXPECT_EQ(job.coordinator().Missing(), "server 0");
}

// A server that is told of the scheduler by a loopback address listens there alone.
TEST(CoordinatorRegistration, WhoIsOutOfAnothersReachIsSaid) {
  const auto news_of = [](const std::string& endpoint, const std::string& host) {
    Job job({.servers = 1, .workers = 1});
    for (const Role role : {Role::kServer, Role::kWorker}) {
      Message hello;
      hello.type = MessageType::kHello;
      hello.from = Temporary(role, 11);
      hello.body = wire::Hello{.role = role,
                               .endpoint = role == Role::kServer ? endpoint : "",
                               .nonce = 11,
                               .config_digest = kDigest,
                               .host = role == Role::kServer ? "rack1" : host};
      job.Deliver(hello);
    }
    return job.coordinator().TakeNews();
  };
  const char* const local = "tcp://127.0.0.1:7071";
  EXPECT_THAT(news_of(local, "rack2"),
              Contains("server 0 listens at tcp://127.0.0.1:7071 of rack1, and worker 0 is on "
                       "rack2: if these are two machines, tell server 0 the scheduler's address "
                       "on the network (cluster.scheduler), or give it --bind"));
  for (const auto& [endpoint, host] :
       {std::pair(local, "rack1"), {local, ""}, {"tcp://10.0.0.1:7071", "rack2"}}) {
    EXPECT_THAT(news_of(endpoint, host), Not(Contains(HasSubstr("listens at")))) << endpoint;
  }
}

// A controller starts a killed server again before anybody knows that it is dead.
TEST(CoordinatorRegistration, WhoTakesADeadOnesRankWaitsUntilItIsCountedOut) {
  Job job({.servers = 1, .workers = 3});
  job.SayHello(Role::kServer, 0, 11);
  job.SayHello(Role::kServer, 0, 12);
  EXPECT_EQ(job.Last(MessageType::kWait).to, Temporary(Role::kServer, 12));
  EXPECT_EQ(job.LastNotice(MessageType::kWait),
            (Notice{kExitPeerLost, "rank 0 is taken by another server, heard from 0.0 s ago"}));
  EXPECT_EQ(job.Last(MessageType::kWait).session, 0u);  // it has no place yet
  job.RunTo(6 * kSecond, {});
  job.SayHello(Role::kServer, 0, 12);
  EXPECT_EQ(job.Last(MessageType::kWelcome).to, Temporary(Role::kServer, 12));
  // The dead one was only slow: it is no server any more.
  job.SayHello(Role::kServer, 0, 11);
  EXPECT_EQ(job.LastNotice(MessageType::kRefuse).code, kExitPeerLost);
  EXPECT_EQ(job.ReceiversOf(MessageType::kRefuse).size(), 1u);
}

// All places are taken, one of them by a dead process: a job that began with it would end by it.
TEST(CoordinatorRegistration, AJobDoesNotBeginWithOneWhoseRankAnotherWants) {
  Job job({.servers = 1, .workers = 1});
  job.SayHello(Role::kServer, 0, 11);
  job.SayHello(Role::kServer, 0, 12);
  job.SayHello(Role::kWorker, 0, 13);
  EXPECT_EQ(job.coordinator().phase(), Coordinator::Phase::kRegistering);
  job.RunTo(6 * kSecond, {Worker(0)});
  job.SayHello(Role::kServer, 0, 12);
  EXPECT_EQ(job.coordinator().phase(), Coordinator::Phase::kInstalling);
}

// Killed when it had registered: the last worker comes before the server is silent for long, and
// before another process stands for it.
TEST(CoordinatorRegistration, AJobDoesNotBeginWithOneWhoseConnectionHasEnded) {
  for (const Address known_as : {Server(0), Temporary(Role::kServer, 11)}) {
    Job job({.servers = 1, .workers = 1});
    job.SayHello(Role::kServer, 0, 11);
    job.coordinator().OnConnectionEnded(job.now(), known_as);
    job.SayHello(Role::kWorker, 0, 12);
    EXPECT_EQ(job.coordinator().phase(), Phase::kRegistering);
    EXPECT_EQ(job.coordinator().Missing(), "server 0");
    job.RunTo(6 * kSecond, {Worker(0)});
    job.SayHello(Role::kServer, 0, 13);
    EXPECT_EQ(job.coordinator().phase(), Phase::kInstalling);
    EXPECT_EQ(job.coordinator().KeyOf(Server(0)), Job::KeyOf(13));
  }
}

TEST(CoordinatorRegistration, ItBeginsOnceWhoseConnectionHadEndedIsHeardAgain) {
  Job job({.servers = 1, .workers = 1});
  job.SayHello(Role::kServer, 0, 11);
  job.coordinator().OnConnectionEnded(job.now(), Server(0));
  job.SayHello(Role::kWorker, 0, 12);
  job.Say(Server(0), MessageType::kHeartbeat);  // was under way
  EXPECT_EQ(job.coordinator().phase(), Phase::kRegistering);
  job.SetNow(job.now() + kSecond / 2);
  job.Say(Server(0), MessageType::kHeartbeat);
  EXPECT_EQ(job.coordinator().phase(), Phase::kInstalling);

  Job by_hello({.servers = 1, .workers = 1});
  by_hello.SayHello(Role::kServer, 0, 11);
  by_hello.coordinator().OnConnectionEnded(by_hello.now(), Temporary(Role::kServer, 11));
  by_hello.SayHello(Role::kWorker, 0, 12);
  by_hello.SetNow(by_hello.now() + kSecond / 2);
  by_hello.SayHello(Role::kServer, 0, 11);  // its Welcome was lost with the connection
  EXPECT_EQ(by_hello.coordinator().phase(), Phase::kInstalling);
}

// Killed when it had said Hello, which was under way when its end was known.
TEST(CoordinatorRegistration, AJobDoesNotBeginWithOneWhoHadEndedBeforeItWasHeard) {
  Job job({.servers = 1, .workers = 1});
  job.SayHello(Role::kWorker, 0, 12);
  job.coordinator().OnConnectionEnded(job.now(), Temporary(Role::kServer, 11));
  job.SayHello(Role::kServer, 0, 11);
  EXPECT_EQ(job.coordinator().phase(), Phase::kRegistering);
  EXPECT_EQ(job.coordinator().Missing(), "server 0");
  job.SetNow(job.now() + kSecond / 2);
  job.SayHello(Role::kServer, 0, 11);  // it lives, and came again
  EXPECT_EQ(job.coordinator().phase(), Phase::kInstalling);
}

TEST(CoordinatorRegistration, OfOthersAndLaterTheEndOfAConnectionSaysNothing) {
  Job job({.servers = 1, .workers = 1});
  job.SayHello(Role::kServer, 0, 11);
  job.coordinator().OnConnectionEnded(job.now(), Temporary(Role::kServer, 12));
  job.coordinator().OnConnectionEnded(job.now(), Worker(0));
  job.SayHello(Role::kWorker, 0, 13);
  EXPECT_EQ(job.coordinator().phase(), Phase::kInstalling);
  job.coordinator().OnConnectionEnded(job.now(), Server(0));
  EXPECT_EQ(job.coordinator().Missing(), "");
}

// Whoever else asks for a member's rank does not make the job say that it is gone.
TEST(CoordinatorRegistration, NobodyIsMissingFromARunningJobWhoseRankAnotherWants) {
  Job job({.servers = 1, .workers = 1});
  job.StartAll();
  job.SayHello(Role::kWorker, 0, 13);
  EXPECT_EQ(job.LastNotice(MessageType::kWait).code, kExitPeerLost);
  EXPECT_EQ(job.coordinator().Missing(), "");
}

TEST(CoordinatorRegistration, NorDoesAHelloOfWhoHadEndedBeforeThePause) {
  Job job({.servers = 1, .workers = 1});
  job.coordinator().OnConnectionEnded(job.now(), Temporary(Role::kServer, 11));
  job.SetNow(job.now() + 10 * kSecond);
  job.SayHello(Role::kServer, 0, 11);
  job.SayHello(Role::kWorker, 0, 12);
  EXPECT_EQ(job.coordinator().phase(), Phase::kRegistering);
}

TEST(CoordinatorRegistration, WhoHasWaitedAndGotAPlaceIsToldAsAMember) {
  Job job({.servers = 1, .workers = 1});
  job.SayHello(Role::kServer, 0, 11);
  job.SayHello(Role::kServer, 0, 12);
  job.RunTo(6 * kSecond, {});
  job.SayHello(Role::kServer, 0, 12);
  job.Abort(kExitTerminated, "stopped by a signal");
  EXPECT_TRUE(job.ReceiversOf(MessageType::kRefuse).empty());
}

TEST(CoordinatorRegistration, WhoAskedLongAgoIsNotToldOfTheEnd) {
  Job job({.servers = 1, .workers = 1});
  job.StartAll();
  job.SayHello(Role::kWorker, 0, 13);
  job.RunTo(10 * kSecond, job.Everybody());
  job.SayHello(Role::kWorker, 0, 14);
  job.Abort(kExitTerminated, "stopped by a signal");
  EXPECT_EQ(job.Last(MessageType::kRefuse).to, Temporary(Role::kWorker, 14));
  EXPECT_EQ(job.ReceiversOf(MessageType::kRefuse).size(), 1u);
}

// It would else ask on, of nobody, for as long as a job may take to start.
TEST(CoordinatorRegistration, WhoWaitsForAPlaceIsToldOfTheEnd) {
  Job job({.servers = 1, .workers = 1});
  job.StartAll();
  job.SayHello(Role::kWorker, 0, 13);
  job.SayHello(Role::kWorker, 0, 14);
  job.Abort(kExitTerminated, "stopped by a signal");
  EXPECT_EQ(job.ReceiversOf(MessageType::kRefuse).size(), 2u);
  EXPECT_EQ(job.LastNotice(MessageType::kRefuse),
            (Notice{kExitPeerLost, "the job is over: stopped by a signal"}));
}

// The scheduler itself did not run for ten seconds, and reads then what was sent before them.
TEST(CoordinatorRegistration, WhatWasUnderWayBeforeAPauseSaysNothingAfterIt) {
  Job job({.servers = 1, .workers = 1});
  job.SayHello(Role::kServer, 0, 11);
  job.coordinator().OnConnectionEnded(job.now(), Server(0));
  job.SetNow(job.now() + 10 * kSecond);
  job.Say(Server(0), MessageType::kHeartbeat);
  job.SayHello(Role::kWorker, 0, 12);
  EXPECT_EQ(job.coordinator().phase(), Phase::kRegistering);
  job.SetNow(job.now() + kSecond / 2);
  job.Say(Server(0), MessageType::kHeartbeat);
  EXPECT_EQ(job.coordinator().phase(), Phase::kInstalling);
}

TEST(CoordinatorRegistration, ItBeginsWithOneWhoIsHeardThoughAnotherWantsItsRank) {
  Job job({.servers = 1, .workers = 1});
  job.SayHello(Role::kServer, 0, 11);
  job.SayHello(Role::kServer, 0, 12);
  job.SayHello(Role::kWorker, 0, 13);
  job.SetNow(job.now() + kSecond / 4);
  job.SayHello(Role::kServer, 0, 12);  // asked again the doubt is no younger
  job.SetNow(job.now() + kSecond / 4);
  job.Say(Server(0), MessageType::kHeartbeat);
  EXPECT_EQ(job.coordinator().phase(), Coordinator::Phase::kInstalling);
}

// Processes that go on asking, each half a second, for ranks whose holders live.
TEST(CoordinatorRegistration, ItBeginsThoughTwoGoOnAskingForRanksOutOfStep) {
  Job job({.servers = 1, .workers = 2});
  job.SayHello(Role::kServer, 0, 11);
  job.SayHello(Role::kWorker, 0, 12);
  constexpr Nanos kStep = kSecond / 20;
  for (int step = 0; step < 60; ++step) {
    job.RunTo(step * kStep, {});
    const int phase = step % 10;
    if (phase == 0) job.SayHello(Role::kServer, 0, 21);
    if (phase == 5) job.SayHello(Role::kWorker, 0, 22);
    if (phase == 9) job.Say(Server(0), MessageType::kHeartbeat);
    if (phase == 4) job.Say(Worker(0), MessageType::kHeartbeat);
    if (step == 21) job.SayHello(Role::kWorker, 1, 13);
    if (step > 21) job.Say(Worker(1), MessageType::kHeartbeat);
  }
  EXPECT_EQ(job.coordinator().phase(), Coordinator::Phase::kInstalling);
}

TEST(CoordinatorRegistration, ARankBeyondTheCountIsRefused) {
  Job job({.servers = 2, .workers = 3});
  job.SayHello(Role::kServer, 2, 11);
  EXPECT_EQ(job.LastNotice(MessageType::kRefuse),
            (Notice{kExitConfig, "rank 2 is out of range: the job has 2 servers"}));
}

TEST(CoordinatorRegistration, OneNodeTooManyWaitsForAPlace) {
  Job job({.servers = 1, .workers = 2});
  for (uint64_t nonce = 1; nonce <= 3; ++nonce) job.SayHello(Role::kWorker, -1, nonce);
  EXPECT_EQ(job.LastNotice(MessageType::kWait),
            (Notice{kExitPeerLost, "no place is free: the job has 2 workers, all there"}));
}

TEST(CoordinatorRegistration, ARepeatedHelloGetsTheSameWelcome) {
  Job job({.servers = 1, .workers = 2});
  job.SayHello(Role::kWorker, -1, 11);
  const Message first = job.Last(MessageType::kWelcome);
  job.SayHello(Role::kWorker, -1, 11);
  EXPECT_EQ(job.Last(MessageType::kWelcome), first);
  EXPECT_EQ(job.ReceiversOf(MessageType::kWelcome).size(), 2u);
  EXPECT_EQ(job.coordinator().Missing(), "server 0, worker 1");
}

TEST(CoordinatorRegistration, AnotherConfigurationIsRefused) {
  Job job({.servers = 1, .workers = 1});
  job.SayHello(Role::kWorker, 0, 11, kDigest + 1);
  EXPECT_EQ(job.LastNotice(MessageType::kRefuse).code, kExitConfig);
  EXPECT_THAT(job.LastNotice(MessageType::kRefuse).text, HasSubstr("differs from the scheduler's"));
  // Neither what would have been welcome nor the session: with them it would be.
  EXPECT_THAT(job.LastNotice(MessageType::kRefuse).text,
              testing::Not(HasSubstr(absl::StrFormat("%016x", kDigest))));
  EXPECT_EQ(job.Last(MessageType::kRefuse).session, 0u);
}

// It asks until it has heard so, and who runs the job looks at the scheduler's lines.
TEST(CoordinatorRegistration, WhoIsRefusedIsSaidOnceInFiveSeconds) {
  Job job({.servers = 1, .workers = 1});
  job.SayHello(Role::kWorker, 0, 11, kDigest + 1);
  job.SayHello(Role::kWorker, 0, 11, kDigest + 1);
  job.SayHello(Role::kWorker, -1, 12, kDigest + 1);
  const auto refused = [](const std::string& who) {
    return AllOf(StartsWith(absl::StrCat(who, " is refused: ")), HasSubstr("differs"));
  };
  const auto asked_for_0 = refused("a worker that asked for rank 0");
  EXPECT_THAT(job.coordinator().TakeNews(), ElementsAre(asked_for_0, refused("a worker")));
  job.RunTo(4 * kSecond, {});
  job.SayHello(Role::kWorker, 0, 11, kDigest + 1);
  EXPECT_THAT(job.coordinator().TakeNews(), IsEmpty());
  job.RunTo(6 * kSecond, {});
  job.SayHello(Role::kWorker, 0, 11, kDigest + 1);
  EXPECT_THAT(job.coordinator().TakeNews(), Contains(asked_for_0));
  // Strangers by the thousand.
  for (uint64_t k = 0; k < 1000; ++k) job.SayHello(Role::kWorker, -1, 100 + k, kDigest + 1);
  EXPECT_THAT(job.coordinator().TakeNews(), SizeIs(3));
}

// Under a policy whose bits are promised the first of a role says what they are made with.
TEST(CoordinatorRegistration, AWorkerOfAnotherArithmeticIsRefusedByBothNames) {
  Job job({.servers = 1, .workers = 3, .one_arithmetic = true});
  job.SayHello(Role::kServer, 0, 10, kDigest, "glibc 2.36 with fma");
  job.SayHello(Role::kWorker, 0, 11, kDigest, "avx512, oneDNN 2.6.3");
  job.SayHello(Role::kWorker, 1, 12, kDigest, "avx512, oneDNN 2.6.3");
  EXPECT_EQ(job.ReceiversOf(MessageType::kRefuse).size(), 0u);
  job.SayHello(Role::kWorker, 2, 13, kDigest, "avx2, oneDNN 2.6.3");
  const wire::Notice why = job.LastNotice(MessageType::kRefuse);
  EXPECT_EQ(why.code, kExitConfig);
  EXPECT_THAT(why.text, HasSubstr("computes with avx2, oneDNN 2.6.3 where worker 0 does with "
                                  "avx512, oneDNN 2.6.3"));
  EXPECT_THAT(why.text, HasSubstr("--isa"));
  EXPECT_EQ(job.coordinator().Missing(), "worker 2");
  // Its place is free for one that is alike.
  job.SayHello(Role::kWorker, 2, 14, kDigest, "avx512, oneDNN 2.6.3");
  EXPECT_EQ(job.coordinator().Missing(), "");
}

TEST(CoordinatorRegistration, ArithmeticsMayDifferWhereNoBitsArePromised) {
  Job job({.servers = 1, .workers = 2});
  job.SayHello(Role::kWorker, 0, 11, kDigest, "avx512, oneDNN 2.6.3");
  job.SayHello(Role::kWorker, 1, 12, kDigest, "avx2, oneDNN 2.6.3");
  EXPECT_EQ(job.ReceiversOf(MessageType::kRefuse).size(), 0u);
  EXPECT_EQ(job.ReceiversOf(MessageType::kWelcome).size(), 2u);
}

// A successor joins what the first ones began, also when they are gone.
TEST(CoordinatorRegistration, ASuccessorComputesAsThoseBeforeIt) {
  Job job({.servers = 1, .workers = 2, .one_arithmetic = true});
  job.SayHello(Role::kServer, 0, 10, kDigest, "glibc");
  job.SayHello(Role::kWorker, 0, 11, kDigest, "avx512");
  job.SayHello(Role::kWorker, 1, 12, kDigest, "avx512");
  job.AckAll();
  job.Lose(Worker(0));
  job.SayHello(Role::kWorker, 0, 13, kDigest, "avx2");
  EXPECT_EQ(job.LastNotice(MessageType::kRefuse).code, kExitConfig);
}

TEST(CoordinatorRegistration, AMalformedHelloIsCountedAndDropped) {
  Job job({.servers = 1, .workers = 1});
  Message message;
  message.type = MessageType::kHello;
  message.from = Temporary(Role::kWorker, 1);
  job.Deliver(message);
  message.body = wire::Hello{.role = Role::kServer};
  job.Deliver(message);
  EXPECT_THAT(job.sent(), IsEmpty());
  EXPECT_EQ(job.coordinator().ignored(), 2u);
}

TEST(CoordinatorRegistration, SaysEveryFiveSecondsWhoIsMissing) {
  Job job({.servers = 2, .workers = 3});
  job.SayHello(Role::kServer, 0, 1);
  job.SayHello(Role::kWorker, 0, 2);
  job.SayHello(Role::kWorker, 1, 3);
  job.coordinator().TakeNews();
  job.RunTo(12 * kSecond, {Server(0), Worker(0), Worker(1)});
  EXPECT_THAT(job.coordinator().TakeNews(),
              ElementsAre("waiting for server 1, worker 2 (5 s of 60 s)",
                          "waiting for server 1, worker 2 (10 s of 60 s)"));
}

TEST(CoordinatorRegistration, GivesUpAtTheStartTimeout) {
  Job job({.servers = 2, .workers = 3});
  job.SayHello(Role::kServer, 0, 1);
  job.SayHello(Role::kWorker, 0, 2);
  job.SayHello(Role::kWorker, 1, 3);
  const std::set<Address> present = {Server(0), Worker(0), Worker(1)};
  job.RunTo(60 * kSecond - 1, present);
  EXPECT_FALSE(job.coordinator().ended().has_value());
  job.RunTo(60 * kSecond, present);
  const Notice why = {kExitPeerLost, "not started after 60 s: missing server 1, worker 2"};
  EXPECT_EQ(job.coordinator().ended(), why);
  EXPECT_EQ(job.LastNotice(MessageType::kShutdown), why);
  EXPECT_THAT(job.ReceiversOf(MessageType::kShutdown),
              ElementsAre(Server(0), Worker(0), Worker(1)));
}

TEST(CoordinatorRegistration, ANodeThatFallsSilentGivesItsPlaceUp) {
  Job job({.servers = 1, .workers = 2});
  job.SayHello(Role::kServer, 0, 1);
  job.SayHello(Role::kWorker, 0, 2);
  job.RunTo(6 * kSecond, {Worker(0)});
  EXPECT_EQ(job.coordinator().Missing(), "server 0, worker 1");
  EXPECT_FALSE(job.coordinator().ended().has_value());
  job.SayHello(Role::kServer, 0, 3);
  EXPECT_EQ(job.coordinator().Missing(), "worker 1");
}

TEST(CoordinatorRegistration, HellosAreSignsOfLife) {
  Job job({.servers = 1, .workers = 2});
  for (int second = 0; second < 20; ++second) {
    job.SayHello(Role::kWorker, 0, 2);
    job.RunTo((second + 1) * kSecond, {});
  }
  EXPECT_EQ(job.coordinator().Missing(), "server 0, worker 1");
}

TEST(CoordinatorRegistration, ALateHelloOfALostProcessIsRefused) {
  Job job({.servers = 1, .workers = 2});
  job.SayHello(Role::kWorker, 0, 2);
  job.Lose(Worker(0));
  job.SayHello(Role::kWorker, 0, 2);
  EXPECT_EQ(job.LastNotice(MessageType::kRefuse).code, kExitPeerLost);
  EXPECT_EQ(job.coordinator().Missing(), "server 0, worker 0, worker 1");
}

}  // namespace
}  // namespace soapstone::scheduler
