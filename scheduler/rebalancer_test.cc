#include "scheduler/rebalancer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "scheduler/hand_played_job.h"
#include "wire/membership/membership.h"

namespace soapstone::scheduler {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- Shares

double StepTime(const std::vector<double>& times, const std::vector<uint32_t>& micro_batches) {
  double longest = 0;
  for (size_t r = 0; r < times.size(); ++r)
    longest = std::max(longest, times[r] * micro_batches[r]);
  return longest;
}

TEST(BestShares, AreInProportionToSpeed) {
  EXPECT_THAT(BestShares({1, 1, 2}, 20), ElementsAre(8, 8, 4));
  EXPECT_THAT(BestShares({1, 0, 3}, 9), ElementsAre(6, 1, 2));
  EXPECT_THAT(BestShares({5}, 7), ElementsAre(7));
}

TEST(BestShares, EveryRankHasALeaf) {
  EXPECT_THAT(BestShares({1, 1000, 1}, 10), ElementsAre(5, 1, 4));
  EXPECT_THAT(BestShares({1, 1000, 900, 2, 0}, 5), ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(BestShares({1, 1000, 900, 2, 0}, 7), ElementsAre(3, 1, 1, 1, 1));
}

// Every split of M micro-batches over 3 ranks, by brute force.
TEST(BestShares, NoOtherSplitIsFaster) {
  const CounterRandom random(1, RandomUse::kTest);
  for (uint64_t i = 0; i < 300; ++i) {
    const std::vector<double> times = {1 + 4 * random.Uniform(3 * i),
                                       1 + 4 * random.Uniform(3 * i + 1),
                                       1 + 4 * random.Uniform(3 * i + 2)};
    const auto micro_batch_count = static_cast<uint32_t>(3 + i % 20);
    const std::vector<uint32_t> best = BestShares(times, micro_batch_count);
    EXPECT_EQ(std::accumulate(best.begin(), best.end(), 0u), micro_batch_count);
    EXPECT_GE(*std::min_element(best.begin(), best.end()), 1u);
    for (uint32_t a = 1; a + 2 <= micro_batch_count; ++a) {
      for (uint32_t b = 1; a + b + 1 <= micro_batch_count; ++b) {
        EXPECT_LE(StepTime(times, best),
                  StepTime(times, {a, b, micro_batch_count - a - b}) * (1 + 1e-12))
            << micro_batch_count << " micro-batches: " << a << " " << b;
      }
    }
  }
}

// ---- When they are proposed

wire::Roster RosterOf(uint32_t workers) {
  wire::Roster roster;
  roster.worker_count = workers;
  for (uint32_t w = 0; w < workers; ++w) roster.workers.push_back({.worker = WorkerId{w}});
  return roster;
}

// Reports of `clocks` clocks by every worker, who takes times[w] ns a sample; one sample a
// micro-batch.
class Measured {
 public:
  Measured(RebalanceOptions options, uint32_t workers)
      : rebalancer(options), roster(RosterOf(workers)), progress_(workers), options_(options) {}

  void Report(const std::vector<double>& times, Clock clocks) {
    const auto ranges =
        wire::MicroBatchRanges(roster, progress_.front().clock, options_.micro_batch_count);
    for (uint32_t w = 0; w < times.size(); ++w) {
      wire::Progress& p = progress_[w];
      p.clock += clocks;
      const uint64_t samples = static_cast<uint64_t>(clocks) * ranges[w].size();
      p.samples += samples;
      p.compute_ns += static_cast<Nanos>(times[w] * static_cast<double>(samples));
      rebalancer.Observe(WorkerId{w}, p);
    }
  }

  Rebalancer rebalancer;
  wire::Roster roster;

 private:
  std::vector<wire::Progress> progress_;
  RebalanceOptions options_;
};

TEST(Rebalancer, ProposesOnceEveryWorkerWasReadTwice) {
  Measured m({.micro_batch_count = 48}, 3);
  m.Report({900, 100, 100}, 10);  // where counting begins
  m.Report({100, 100, 200}, 10);
  EXPECT_FALSE(m.rebalancer.Propose(m.roster).has_value());
  m.Report({100, 100, 200}, 10);
  const auto proposal = m.rebalancer.Propose(m.roster);
  ASSERT_TRUE(proposal.has_value());
  EXPECT_THAT(proposal->micro_batches, ElementsAre(20, 19, 9));  // T = 20, as of 19, 19, 10
  EXPECT_NEAR(proposal->gain, 32.0 / 20 - 1, 1e-9);
}

TEST(Rebalancer, LittleToGainIsLeftAlone) {
  Measured m({.micro_batch_count = 48}, 3);
  for (int i = 0; i < 10; ++i) m.Report({100, 100, 104}, 10);
  EXPECT_FALSE(m.rebalancer.Propose(m.roster).has_value());
}

TEST(Rebalancer, InjectedTimeCountsAsTime) {
  Rebalancer rebalancer({.micro_batch_count = 8});
  for (Clock c = 0; c <= 15; c += 5) {
    const uint64_t samples = 4 * static_cast<uint64_t>(c);
    rebalancer.Observe(WorkerId{0}, {.clock = c, .samples = samples, .compute_ns = 100 * c});
    rebalancer.Observe(
        WorkerId{1},
        {.clock = c, .samples = samples, .compute_ns = 100 * c, .injected_ns = 200 * c});
  }
  const auto proposal = rebalancer.Propose(RosterOf(2));
  ASSERT_TRUE(proposal.has_value());
  EXPECT_THAT(proposal->micro_batches, ElementsAre(6, 2));
}

TEST(Rebalancer, NoiseAsksForMoreGain) {
  Measured quiet({.micro_batch_count = 48}, 3), noisy({.micro_batch_count = 48}, 3);
  for (int i = 0; i < 4; ++i) {
    quiet.Report({100, 100, 125}, 10);
    noisy.Report({100, i % 2 == 0 ? 90.0 : 110.0, 125}, 10);
  }
  EXPECT_TRUE(quiet.rebalancer.Propose(quiet.roster).has_value());
  EXPECT_FALSE(noisy.rebalancer.Propose(noisy.roster).has_value());
}

TEST(Rebalancer, TwoReadingsFarOffAreNoise) {
  Measured m({.micro_batch_count = 48}, 3);
  for (int i = 0; i < 20; ++i) m.Report({100, 100, i == 15 || i == 16 ? 300.0 : 100.0}, 10);
  EXPECT_FALSE(m.rebalancer.Propose(m.roster).has_value());
}

TEST(Rebalancer, ThreeReadingsFarOffBeginAnew) {
  Measured m({.micro_batch_count = 48}, 3);
  for (int i = 0; i < 20; ++i) m.Report({100, 100, i < 17 ? 100.0 : 300.0}, 10);
  const auto proposal = m.rebalancer.Propose(m.roster);
  ASSERT_TRUE(proposal.has_value());
  EXPECT_THAT(proposal->micro_batches, ElementsAre(21, 21, 6));
}

TEST(Rebalancer, OffItProposesNothing) {
  Measured m({.micro_batch_count = 0}, 2);
  for (int i = 0; i < 10; ++i) {
    m.rebalancer.Observe(WorkerId{0}, {.clock = 10 * i, .samples = 10u * i, .compute_ns = i});
    m.rebalancer.Observe(WorkerId{1}, {.clock = 10 * i, .samples = 10u * i, .compute_ns = 9 * i});
  }
  EXPECT_FALSE(m.rebalancer.Propose(m.roster).has_value());
}

// ---- The agreement

TEST(Rebalancer, TheSharesHoldFromTheGreatestBoundOn) {
  Rebalancer rebalancer({.micro_batch_count = 4});
  const wire::Roster roster = RosterOf(2);
  SharedList<wire::Shares> shares;
  rebalancer.Begin({.micro_batches = {3, 1}}, 5);
  rebalancer.Record(WorkerId{0}, 5, 30);
  EXPECT_FALSE(rebalancer.EndIfAgreed(roster, &shares).has_value());
  rebalancer.Record(WorkerId{1}, 4, 90);  // of an earlier change
  EXPECT_FALSE(rebalancer.EndIfAgreed(roster, &shares).has_value());
  rebalancer.Record(WorkerId{1}, 6, 40);
  EXPECT_TRUE(rebalancer.EndIfAgreed(roster, &shares).has_value());
  EXPECT_FALSE(rebalancer.changing());
  EXPECT_EQ(shares, (SharedList<wire::Shares>{{40, {3, 1}}}));
}

TEST(Rebalancer, EntriesThatNobodyAsksForAreDropped) {
  Rebalancer rebalancer({.micro_batch_count = 4, .lead = 8});
  const wire::Roster roster = RosterOf(1);
  SharedList<wire::Shares> shares = {{10, {4}}, {50, {4}}, {60, {4}}};
  rebalancer.Begin({.micro_batches = {4}}, 1);
  rebalancer.Record(WorkerId{0}, 1, 70);  // it is at clock 61, and may repeat clock 60
  ASSERT_TRUE(rebalancer.EndIfAgreed(roster, &shares).has_value());
  EXPECT_EQ(shares, (SharedList<wire::Shares>{{50, {4}}, {60, {4}}, {70, {4}}}));
}

// ---- Through the coordinator

using Job = HandPlayedJob;

const CoordinatorOptions kOptions = {
    .servers = 1, .workers = 3, .rebalance = {.micro_batch_count = 48}};

void SayProgress(Job* job, uint32_t worker, Clock clock, Nanos ns_per_sample) {
  const uint64_t samples = 16 * static_cast<uint64_t>(clock);
  job->Say(Worker(worker), MessageType::kHeartbeat,
           wire::Progress{.clock = clock,
                          .samples = samples,
                          .compute_ns = static_cast<Nanos>(samples) * ns_per_sample});
}

void MakeUneven(Job* job) {
  for (Clock clock = 0; clock <= 15; clock += 5) {
    for (uint32_t w = 0; w < 3; ++w) SayProgress(job, w, clock, w == 2 ? 200 : 100);
  }
}

void AckBound(Job* job, uint32_t worker, Clock bound) {
  Message ack;
  ack.type = MessageType::kRosterAck;
  ack.from = Worker(worker);
  ack.session = kSession;
  ack.epoch = job->coordinator().epoch();
  ack.clock = bound;
  job->Deliver(ack);
}

wire::Roster LastRoster(const Job& job) {
  return std::get<wire::Roster>(job.Last(MessageType::kRoster).body);
}

TEST(CoordinatorRebalance, AsksForBoundsThenSharesOut) {
  Job job(kOptions);
  job.StartAll();
  MakeUneven(&job);
  EXPECT_EQ(LastRoster(job).share_lead, 8);
  EXPECT_THAT(LastRoster(job).shares, IsEmpty());
  AckBound(&job, 0, 19);
  AckBound(&job, 1, 21);
  job.Clear();
  AckBound(&job, 2, 18);
  EXPECT_EQ(LastRoster(job).share_lead, 0);
  EXPECT_EQ(LastRoster(job).shares, (SharedList<wire::Shares>{{21, {20, 19, 9}}}));
  EXPECT_THAT(job.coordinator().TakeNews().back(),
              HasSubstr("re-balanced: 9 to 20 of 48 micro-batches a worker from clock 21"));
}

TEST(CoordinatorRebalance, DoesNotWaitForALostWorker) {
  Job job(kOptions);
  job.StartAll();
  MakeUneven(&job);
  AckBound(&job, 0, 19);
  AckBound(&job, 1, 21);
  job.Lose(Worker(2));
  EXPECT_EQ(LastRoster(job).share_lead, 0);
  EXPECT_EQ(LastRoster(job).shares.size(), 1u);
}

// Who lives and does not answer would hold up the change, and every newcomer, for ever.
TEST(CoordinatorRebalance, WhoDoesNotAnswerIsCountedOut) {
  Job job(kOptions);
  job.StartAll();
  MakeUneven(&job);
  ASSERT_GT(LastRoster(job).share_lead, 0);
  AckBound(&job, 0, 20);
  AckBound(&job, 2, 21);
  const Nanos began = job.now();
  job.RunTo(began + 59 * kSecond, job.Everybody());
  EXPECT_THAT(LastRoster(job).shares, IsEmpty());
  job.RunTo(began + 61 * kSecond, job.Everybody());
  EXPECT_EQ(LastRoster(job).shares.size(), 1u);  // agreed upon by the other two
  EXPECT_THAT(RosterWorkers(job.Last(MessageType::kRoster)), ElementsAre(WorkerId{0}, WorkerId{2}));
  EXPECT_THAT(job.coordinator().TakeNews(),
              Contains(HasSubstr("worker 1 has not agreed to new shares for 60 s")));
}

TEST(CoordinatorRebalance, AJoinWaitsForTheChangeAndTheChangeForAJoin) {
  Job job(kOptions);
  job.StartAll();
  job.Lose(Worker(1));
  job.Clear();
  for (Clock clock = 0; clock <= 15; clock += 5) {
    SayProgress(&job, 0, clock, 100);
    SayProgress(&job, 2, clock, 300);
  }
  ASSERT_EQ(LastRoster(job).share_lead, 8);
  job.SayHello(Role::kWorker, 1, 77);
  EXPECT_THAT(RosterWorkers(job.Last(MessageType::kRoster)), ElementsAre(WorkerId{0}, WorkerId{2}));
  AckBound(&job, 0, 19);
  AckBound(&job, 2, 19);
  const wire::Roster roster = LastRoster(job);
  EXPECT_EQ(roster.workers.size(), 3u);  // the join began
  EXPECT_EQ(roster.shares, (SharedList<wire::Shares>{{19, {36, 1, 11}}}));
  for (Clock clock = 15; clock <= 40; clock += 5) {
    SayProgress(&job, 0, clock, 300);
    SayProgress(&job, 2, clock, 100);
  }
  EXPECT_EQ(LastRoster(job).share_lead, 0);  // nothing before the newcomer is in
  job.AckAll();
  job.AckAll();
  job.Clear();
  for (Clock clock = 45; clock <= 60; clock += 5) {
    SayProgress(&job, 0, clock, 300);
    SayProgress(&job, 1, clock, 100);
    SayProgress(&job, 2, clock, 100);
  }
  EXPECT_EQ(LastRoster(job).share_lead, 8);
}

}  // namespace
}  // namespace soapstone::scheduler
