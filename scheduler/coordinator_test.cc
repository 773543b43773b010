#include "scheduler/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "scheduler/hand_played_job.h"

namespace soapstone::scheduler {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Job = HandPlayedJob;

// ---- The start

// A second in which all are heard of, and server 0 says how far it is.
void Pass(Job* job, const wire::SlowWork& work) {
  job->SetNow(job->now() + kSecond);
  job->Say(Worker(0), MessageType::kHeartbeat);
  job->Say(Server(0), MessageType::kHeartbeat, work);
  job->Fire();
}

// Shards that are being made may take as long as they like while they come forward.
TEST(CoordinatorStart, IsPatientWithShardsThatAreBeingMade) {
  Job job({.servers = 1, .workers = 1});
  job.RegisterAll();
  uint64_t done = 0;
  for (int seconds = 0; seconds < 150; ++seconds) {
    Pass(&job, {.done_bytes = done += seconds % 50 == 0 ? 100'000 : 0, .total_bytes = 400'000});
  }
  ASSERT_EQ(job.coordinator().ended(), std::nullopt);
  EXPECT_THAT(job.coordinator().TakeNews(),
              Contains("server 0 makes its parameters: 75% of 0.4 MB"));
  for (int seconds = 0; seconds < 60; ++seconds) {
    Pass(&job, {.done_bytes = done, .total_bytes = 400'000});
  }
  ASSERT_NE(job.coordinator().ended(), std::nullopt);
  EXPECT_THAT(job.coordinator().ended()->text, HasSubstr("has not taken roster 1 for 60 s"));
}

// It decides nothing by it, and counts what cannot be.
TEST(CoordinatorStart, KeepsWhatServersSayOfTheirReads) {
  Job job({.servers = 2, .workers = 2});
  job.RegisterAll();
  const auto say = [&](Address from, uint32_t shard, uint32_t worker) {
    wire::ShardReads reads = {.shard = ShardId{shard}, .reader_count = 1};
    reads.readers = {{.worker = WorkerId{worker}, .reads = 1}};
    job.Say(from, MessageType::kHeartbeat, wire::ServerProgress{{reads}});
  };
  say(Server(0), 0, 1);
  say(Server(1), 1, 0);
  EXPECT_EQ(job.coordinator().ignored(), 0u);
  EXPECT_EQ(job.coordinator().reports().all().size(), 2u);
  say(Server(1), 0, 0);  // of the other's shard
  say(Server(1), 1, 2);  // of a worker that the job has not
  EXPECT_EQ(job.coordinator().ignored(), 2u);
  say(Worker(1), 0, 0);  // a worker has no shards
  const auto& first = job.coordinator().reports().all().at(ServerId{0});
  EXPECT_EQ(first.progress.shards[0].readers[0].worker, WorkerId{1});
}

TEST(CoordinatorStart, WhenAllAreThereTheFirstRosterGoesToEverybody) {
  Job job({.servers = 2, .workers = 2, .shards_per_server = 2});
  job.RegisterAll();
  EXPECT_EQ(job.coordinator().phase(), Phase::kInstalling);
  EXPECT_EQ(job.coordinator().epoch(), 1u);
  EXPECT_THAT(job.ReceiversOf(MessageType::kRoster),
              ElementsAre(Shard(0), Shard(1), Shard(2), Shard(3), Server(0), Server(1), Worker(0),
                          Worker(1)));
  const Message message = job.Last(MessageType::kRoster);
  EXPECT_EQ(message.epoch, 1u);
  const auto& roster = std::get<wire::Roster>(message.body);
  EXPECT_EQ(roster.worker_count, 2u);
  EXPECT_EQ(roster.shards_per_server, 2u);
  ASSERT_EQ(roster.workers.size(), 2u);
  EXPECT_EQ(roster.workers[1], (wire::Member{.worker = WorkerId{1},
                                             .admitted = 1,
                                             .endpoint = "tcp://host",
                                             .key = job.coordinator().KeyOf(Worker(1))}));
  ASSERT_EQ(roster.servers.size(), 2u);
  const std::string key = job.coordinator().KeyOf(Server(1));
  EXPECT_EQ(roster.servers[1], (wire::ServerEntry{ServerId{1}, "tcp://host", key}));
  EXPECT_EQ(key.substr(0, 4), "key ");
  EXPECT_NE(key, job.coordinator().KeyOf(Worker(1)));
  EXPECT_EQ(job.coordinator().KeyOf(Worker(2)), "") << "nobody has that rank";
}

TEST(CoordinatorStart, WorkersStartWhenTheLastShardHasTheRoster) {
  Job job({.servers = 2, .workers = 2});
  job.RegisterAll();
  job.Ack(0);
  job.Ack(0);
  EXPECT_THAT(job.ReceiversOf(MessageType::kStart), IsEmpty());
  job.Ack(1);
  EXPECT_THAT(job.ReceiversOf(MessageType::kStart), ElementsAre(Worker(0), Worker(1)));
  EXPECT_EQ(job.Last(MessageType::kStart).clock, 0);
  EXPECT_EQ(job.Last(MessageType::kStart).epoch, 1u);
  EXPECT_EQ(job.coordinator().phase(), Phase::kRunning);
}

TEST(CoordinatorStart, AWorkerLostWhileInstallingIsLeftOut) {
  Job job({.servers = 1, .workers = 2});
  job.RegisterAll();
  job.Lose(Worker(0));
  EXPECT_EQ(job.coordinator().epoch(), 2u);
  EXPECT_EQ(job.coordinator().phase(), Phase::kInstalling);
  job.AckAll();
  EXPECT_THAT(job.ReceiversOf(MessageType::kStart), ElementsAre(Worker(1)));
}

TEST(CoordinatorStart, AShardThatNeverTakesTheRosterEndsTheJob) {
  Job job({.servers = 2, .workers = 1});
  job.RegisterAll();
  job.Ack(0);
  job.RunTo(60 * kSecond, job.Everybody());
  EXPECT_EQ(job.coordinator().ended(),
            (Notice{kExitPeerLost, "shard 1 has not taken roster 1 for 60 s"}));
}

// ---- Heartbeats

TEST(CoordinatorHeartbeat, IsAnsweredAndItsProgressKept) {
  Job job({.servers = 1, .workers = 2});
  job.StartAll();
  job.Say(Worker(1), MessageType::kHeartbeat, AtClock(9));
  EXPECT_EQ(job.Last(MessageType::kHeartbeatAck).to, Worker(1));
  EXPECT_EQ(job.coordinator().progress().at(WorkerId{1}).clock, 9);
  job.Say(Server(0), MessageType::kHeartbeat);
  EXPECT_EQ(job.Last(MessageType::kHeartbeatAck).to, Server(0));
}

TEST(CoordinatorHeartbeat, KeepsEverybodyIn) {
  Job job({.servers = 1, .workers = 2});
  job.StartAll();
  job.RunTo(100 * kSecond, job.Everybody());
  EXPECT_EQ(job.coordinator().epoch(), 1u);
  EXPECT_EQ(job.coordinator().ignored(), 0u);
}

TEST(CoordinatorHeartbeat, OfAnExpelledWorkerIsAnsweredWithShutdown) {
  Job job({.servers = 1, .workers = 2});
  job.StartAll();
  job.Lose(Worker(0));
  job.Clear();
  job.Say(Worker(0), MessageType::kHeartbeat, AtClock(3));
  EXPECT_THAT(job.ReceiversOf(MessageType::kHeartbeatAck), IsEmpty());
  EXPECT_EQ(job.Last(MessageType::kShutdown).to, Worker(0));
  EXPECT_EQ(job.LastNotice(MessageType::kShutdown),
            (Notice{kExitPeerLost, "expelled: was silent for too long"}));
  EXPECT_EQ(job.coordinator().progress().count(WorkerId{0}), 0u);
}

TEST(CoordinatorHeartbeat, OfARanksFormerHolderIsNotItsReplacements) {
  Job job({.servers = 1, .workers = 2});
  job.StartAll();
  job.Lose(Worker(0));
  job.SayHello(Role::kWorker, 0, 77);
  job.Clear();
  Message stale;
  stale.type = MessageType::kHeartbeat;
  stale.from = Worker(0);
  stale.session = kSession;
  stale.epoch = 1;
  job.Deliver(stale);
  EXPECT_THAT(job.sent(), IsEmpty());
  EXPECT_EQ(job.coordinator().ignored(), 1u);
}

TEST(CoordinatorHeartbeat, OfAnotherSessionIsIgnored) {
  Job job({.servers = 1, .workers = 1});
  job.StartAll();
  Message message;
  message.type = MessageType::kHeartbeat;
  message.from = Worker(0);
  message.session = kSession + 1;
  job.Deliver(message);
  EXPECT_THAT(job.sent(), IsEmpty());
}

TEST(CoordinatorHeartbeat, OurOwnPauseIsNotTheOthersSilence) {
  Job job({.servers = 1, .workers = 2});
  job.StartAll();
  job.RunTo(10 * kSecond, job.Everybody());
  job.SetNow(40 * kSecond);
  job.Fire();
  EXPECT_EQ(job.coordinator().epoch(), 1u);
  EXPECT_FALSE(job.coordinator().ended().has_value());
}

// ---- The end of the job

TEST(CoordinatorEnd, DoneEvaluateSaveClose) {
  Job job({.servers = 2, .workers = 2, .shards_per_server = 2});
  job.StartAll();
  job.Say(Worker(1), MessageType::kDone, AtClock(10));
  job.Say(Worker(1), MessageType::kDone, AtClock(10));
  EXPECT_EQ(job.coordinator().phase(), Phase::kRunning);
  job.Say(Worker(0), MessageType::kDone, AtClock(10));
  EXPECT_THAT(job.ReceiversOf(MessageType::kEvaluate), ElementsAre(Worker(0)));
  job.Say(Worker(0), MessageType::kEvaluated, wire::Evaluation{360, 350, 1.5});
  EXPECT_EQ(job.coordinator().evaluation(), (wire::Evaluation{360, 350, 1.5}));
  EXPECT_EQ(job.coordinator().phase(), Phase::kSaving);
  EXPECT_THAT(job.ReceiversOf(MessageType::kSave), ElementsAre(Server(0)));
  job.Say(Server(0), MessageType::kSaved, wire::Saved{"/model", "abc"});
  EXPECT_EQ(job.coordinator().saved(), (wire::Saved{"/model", "abc"}));
  EXPECT_EQ(job.coordinator().ended(), (Notice{kExitOk, "done"}));
  EXPECT_EQ(job.LastNotice(MessageType::kShutdown), (Notice{kExitOk, "done"}));
  EXPECT_THAT(job.ReceiversOf(MessageType::kShutdown),
              ElementsAre(Server(0), Server(1), Worker(0), Worker(1)));
}

// Saving may take as long as it likes while it comes forward; where it stands still it is given up.
TEST(CoordinatorEnd, SavingIsGivenUpOnlyWhereItStandsStill) {
  Job job({.servers = 1, .workers = 1, .evaluate = false});
  job.StartAll();
  job.Say(Worker(0), MessageType::kDone, AtClock(10));
  uint64_t done = 0;
  for (int seconds = 0; seconds < 3 * 3600; ++seconds) {
    Pass(&job, {.done_bytes = done += seconds % 1500 == 0 ? 100'000 : 0, .total_bytes = 1'600'000});
  }
  ASSERT_EQ(job.coordinator().ended(), std::nullopt);
  EXPECT_THAT(job.coordinator().TakeNews(), Contains("server 0 saves the model: 50% of 1.6 MB"));
  for (int seconds = 0; seconds < 1800 && !job.coordinator().ended().has_value(); ++seconds) {
    Pass(&job, {.done_bytes = done, .total_bytes = 1'600'000});
  }
  EXPECT_EQ(job.coordinator().ended(),
            (Notice{kExitPeerLost, "the model is not saved after 1800 s"}));
}

TEST(CoordinatorEnd, EvaluationAndSavingCanBeLeftOut) {
  Job job({.servers = 1, .workers = 1, .evaluate = false, .save = false});
  job.StartAll();
  job.Say(Worker(0), MessageType::kDone, AtClock(10));
  EXPECT_EQ(job.coordinator().ended(), (Notice{kExitOk, "done"}));
  EXPECT_THAT(job.ReceiversOf(MessageType::kEvaluate), IsEmpty());
  EXPECT_THAT(job.ReceiversOf(MessageType::kSave), IsEmpty());
}

class CoordinatorEvaluating : public ::testing::Test {
 protected:
  CoordinatorEvaluating() {
    job_.StartAll();
    for (uint32_t k = 0; k < 3; ++k) job_.Say(Worker(k), MessageType::kDone, AtClock(10));
    job_.Clear();
  }
  Job job_{{.servers = 1, .workers = 3}};
};

TEST_F(CoordinatorEvaluating, ALostEvaluatorIsReplaced) {
  job_.Lose(Worker(0));
  EXPECT_EQ(job_.coordinator().phase(), Phase::kEvaluating);
  EXPECT_THAT(job_.ReceiversOf(MessageType::kEvaluate), ElementsAre(Worker(1)));
  job_.Say(Worker(0), MessageType::kEvaluated, wire::Evaluation{1, 1, 0});
  EXPECT_EQ(job_.coordinator().phase(), Phase::kEvaluating);
  job_.Say(Worker(1), MessageType::kEvaluated, wire::Evaluation{2, 2, 0});
  EXPECT_EQ(job_.coordinator().evaluation()->samples, 2u);
}

TEST_F(CoordinatorEvaluating, AnotherWorkersLossOnlyChangesTheRoster) {
  job_.Lose(Worker(2));
  EXPECT_THAT(job_.ReceiversOf(MessageType::kEvaluate), IsEmpty());
  EXPECT_THAT(job_.ReceiversOf(MessageType::kRoster),
              ElementsAre(Shard(0), Server(0), Worker(0), Worker(1)));
}

TEST_F(CoordinatorEvaluating, TheLastWorkersLossEndsTheJob) {
  for (uint32_t k = 0; k < 3; ++k) job_.Lose(Worker(k));
  EXPECT_EQ(job_.coordinator().ended(), (Notice{kExitPeerLost, "worker 2 lost; none left"}));
}

TEST_F(CoordinatorEvaluating, OnlyTheEvaluatorsResultCounts) {
  job_.Say(Worker(1), MessageType::kEvaluated, wire::Evaluation{1, 1, 0});
  EXPECT_EQ(job_.coordinator().phase(), Phase::kEvaluating);
}

TEST_F(CoordinatorEvaluating, HasADeadline) {
  job_.RunTo(30 * 60 * kSecond, job_.Everybody());
  EXPECT_EQ(job_.coordinator().ended(),
            (Notice{kExitPeerLost, "worker 0 has not evaluated for 1800 s"}));
}

TEST_F(CoordinatorEvaluating, SavingOutlivesAllWorkers) {
  job_.Say(Worker(0), MessageType::kEvaluated, wire::Evaluation{1, 1, 0});
  for (uint32_t k = 0; k < 3; ++k) job_.Lose(Worker(k));
  EXPECT_EQ(job_.coordinator().phase(), Phase::kSaving);
  job_.Say(Server(0), MessageType::kSaved, wire::Saved{"/model", "abc"});
  EXPECT_EQ(job_.coordinator().ended(), (Notice{kExitOk, "done"}));
}

TEST_F(CoordinatorEvaluating, OnlyServerZeroSaves) {
  job_.Say(Worker(0), MessageType::kEvaluated, wire::Evaluation{1, 1, 0});
  job_.Say(Worker(0), MessageType::kSaved, wire::Saved{"/model", "abc"});
  EXPECT_EQ(job_.coordinator().phase(), Phase::kSaving);
}

TEST(CoordinatorEnd, AbortShutsEverybodyDown) {
  Job job({.servers = 1, .workers = 2});
  job.StartAll();
  job.Abort(kExitInterrupted, "interrupted");
  EXPECT_EQ(job.coordinator().ended(), (Notice{kExitInterrupted, "interrupted"}));
  EXPECT_THAT(job.ReceiversOf(MessageType::kShutdown),
              ElementsAre(Server(0), Worker(0), Worker(1)));
}

TEST(CoordinatorEnd, TheFirstEndStands) {
  Job job({.servers = 1, .workers = 2});
  job.StartAll();
  job.Abort(kExitInterrupted, "interrupted");
  job.Clear();
  job.Abort(kExitTerminated, "terminated");
  job.Lose(Server(0));
  job.Say(Worker(0), MessageType::kDone, AtClock(1));
  EXPECT_EQ(job.coordinator().ended(), (Notice{kExitInterrupted, "interrupted"}));
  EXPECT_THAT(job.sent(), IsEmpty());
}

TEST(CoordinatorEnd, LateHeartbeatsAndHellosAreToldSo) {
  Job job({.servers = 1, .workers = 2});
  job.StartAll();
  job.Abort(kExitInterrupted, "interrupted");
  job.Clear();
  job.Say(Worker(1), MessageType::kHeartbeat);
  EXPECT_EQ(job.LastNotice(MessageType::kShutdown), (Notice{kExitInterrupted, "interrupted"}));
  job.SayHello(Role::kWorker, -1, 5);
  EXPECT_EQ(job.LastNotice(MessageType::kRefuse),
            (Notice{kExitPeerLost, "the job is over: interrupted"}));
}

TEST(CoordinatorEnd, NoTimerIsSetAfterIt) {
  Job job({.servers = 1, .workers = 1});
  job.StartAll();
  job.Abort(kExitInterrupted, "interrupted");
  wire::Outbox out;
  job.coordinator().OnTimer(kSecond, Coordinator::kTick, &out);
  EXPECT_THAT(out.timers, IsEmpty());
}

// ---- As a value

std::pair<uint64_t, uint64_t> FingerprintOf(const Coordinator& coordinator) {
  Fingerprint f;
  coordinator.AddTo(&f);
  return f.value();
}

TEST(CoordinatorValue, ACopyGoesItsOwnWay) {
  Job job({.servers = 1, .workers = 3});
  job.StartAll();
  Coordinator copy = job.coordinator();
  EXPECT_EQ(FingerprintOf(copy), FingerprintOf(job.coordinator()));
  wire::Outbox out;
  copy.OnLost(0, Worker(0), kLastEpoch, &out);
  EXPECT_EQ(copy.epoch(), 2u);
  EXPECT_EQ(job.coordinator().epoch(), 1u);
  EXPECT_NE(FingerprintOf(copy), FingerprintOf(job.coordinator()));
}

TEST(CoordinatorValue, TimesAndProgressDoNotCountInTheFingerprint) {
  Job job({.servers = 1, .workers = 2});
  job.StartAll();
  const auto before = FingerprintOf(job.coordinator());
  job.SetNow(kSecond);
  job.Say(Worker(0), MessageType::kHeartbeat, AtClock(4));
  EXPECT_EQ(FingerprintOf(job.coordinator()), before);
  job.Say(Worker(0), MessageType::kDone, AtClock(4));
  EXPECT_NE(FingerprintOf(job.coordinator()), before);
}

// ---- Standing still

// Worker `rank` at clock 3, and waiting for `seconds` where that is not 0.
wire::Progress AtClock3(Nanos seconds) {
  wire::Progress progress = AtClock(3);
  if (seconds > 0) {
    progress.waiting =
        wire::Waiting{.of = Shard(0), .clock = 4, .for_ns = seconds * kSecond, .asked = 1};
  }
  return progress;
}

// Lets a second pass, in which workers 0 and 1 say so of themselves.
void PassWaiting(Job* job, Nanos first, Nanos second) {
  job->SetNow(job->now() + kSecond);
  job->Say(Server(0), MessageType::kHeartbeat);
  job->Say(Worker(0), MessageType::kHeartbeat, AtClock3(first));
  job->Say(Worker(1), MessageType::kHeartbeat, AtClock3(second));
  job->Fire();
}

// All wait, nobody moves, everybody lives: said, again each timeout, and after the last of the
// time limits the end.
TEST(CoordinatorStandstill, IsSaidAndEndsTheJobInTheEnd) {
  Job job({.servers = 1, .workers = 2, .finish_timeout_ns = 100 * kSecond});
  job.StartAll();
  job.coordinator().TakeNews();
  size_t said = 0;
  for (Nanos s = 1; s <= 31; ++s) {
    PassWaiting(&job, s, s);
    said += job.coordinator().TakeNews().size();
  }
  EXPECT_EQ(said, 6u);  // from 5 s after the first report on, each 5 s
  for (Nanos s = 32; s <= 36; ++s) PassWaiting(&job, s, s);
  EXPECT_THAT(job.coordinator().TakeNews(),
              ElementsAre("nothing has moved for 35 s, and all nodes answer: "
                          "worker 0 has waited 36.0 s for shard-0: values of clock 4, asked for "
                          "again 1 times; worker 1 has waited 36.0 s for shard-0: values of clock "
                          "4, asked for again 1 times"));
  for (Nanos s = 37; s <= 102; ++s) PassWaiting(&job, s, s);
  ASSERT_TRUE(job.coordinator().ended().has_value());
  EXPECT_EQ(job.coordinator().ended()->code, kExitPeerLost);
  EXPECT_THAT(job.coordinator().ended()->text, HasSubstr("nothing has moved for 100 s"));
}

// A read that is parked for an hour, because another worker computes for so long, is no fault.
TEST(CoordinatorStandstill, WhoWaitsForOneThatComputesIsLeftAlone) {
  Job job({.servers = 1, .workers = 2, .finish_timeout_ns = 100 * kSecond});
  job.StartAll();
  job.coordinator().TakeNews();
  for (Nanos s = 1; s <= 3600; ++s) PassWaiting(&job, s, 0);
  EXPECT_FALSE(job.coordinator().ended().has_value());
  EXPECT_THAT(job.coordinator().TakeNews(), IsEmpty());
}

TEST(CoordinatorStandstill, IsNoneWhileSomebodyMoves) {
  Job job({.servers = 1, .workers = 2, .finish_timeout_ns = 20 * kSecond});
  job.StartAll();
  job.coordinator().TakeNews();
  for (Nanos s = 1; s <= 100; ++s) {
    if (s % 4 == 0) {
      wire::Progress moves = AtClock3(s);
      moves.samples = static_cast<uint64_t>(s);
      job.Say(Worker(1), MessageType::kHeartbeat, moves);
      job.Fire();
      continue;
    }
    wire::Progress stays = AtClock3(s);
    stays.samples = static_cast<uint64_t>(s / 4 * 4);
    job.SetNow(job.now() + kSecond);
    job.Say(Server(0), MessageType::kHeartbeat);
    job.Say(Worker(0), MessageType::kHeartbeat, AtClock3(s));
    job.Say(Worker(1), MessageType::kHeartbeat, stays);
    job.Fire();
  }
  EXPECT_FALSE(job.coordinator().ended().has_value());
  EXPECT_THAT(job.coordinator().TakeNews(), IsEmpty());
}

// ---- Divergence

TEST(CoordinatorDivergence, EndsTheJobForAllWithOneLine) {
  for (const bool of_shard : {false, true}) {
    Job job({.servers = 1, .workers = 2, .on_divergence = [](Clock clock) {
               return absl::StrCat("rate ", clock, "; try another");
             }});
    job.StartAll();
    const wire::NotFinite what = {.worker = 1, .parameters = of_shard, .tensor = "fc1.weight"};
    job.Say(of_shard ? Shard(0) : Worker(1), MessageType::kNotFinite, what, 7);
    const Notice why = job.coordinator().ended().value_or(Notice{});
    EXPECT_EQ(why.code, kExitNotFinite);
    EXPECT_EQ(why.text, of_shard ? "diverged at clock 7: fc1.weight is not finite after an update "
                                   "of worker 1; rate 7; try another"
                                 : "diverged at clock 7: the gradient of fc1.weight by worker 1 is "
                                   "not finite; rate 7; try another");
    EXPECT_EQ(job.LastNotice(MessageType::kShutdown), why);
    EXPECT_EQ(job.ReceiversOf(MessageType::kShutdown).size(), 3u);
  }
}

TEST(CoordinatorDivergence, AModelWhoseLossIsNotFiniteIsSavedAndNoSuccess) {
  Job job({.servers = 1, .workers = 1});
  job.StartAll();
  job.Say(Worker(0), MessageType::kDone, AtClock(3));
  job.Say(Worker(0), MessageType::kEvaluated, wire::Evaluation{10, 1, std::nan("")});
  EXPECT_EQ(job.ReceiversOf(MessageType::kSave).size(), 1u);
  job.Say(Server(0), MessageType::kSaved, wire::Saved{"/model", "abc"});
  EXPECT_EQ(job.coordinator().ended().value_or(Notice{}).code, kExitNotFinite);
  EXPECT_TRUE(job.coordinator().saved().has_value());
}

}  // namespace
}  // namespace soapstone::scheduler
