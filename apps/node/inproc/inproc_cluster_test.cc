// A whole cluster in one process, each node on threads of its own, over the in-process transport:
// the shells, actors and kernels of the real one. ThreadSanitizer watches this.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <thread>

#include "apps/node/inproc/inproc_job.h"
#include "base/exit_codes.h"
#include "base/steady_clock.h"
#include "consistency/catalogue.h"

// ThreadSanitizer does not see the locks inside libraries that were built without it: oneDNN's once
// its first kernel is made (nor do its headers' copies of what it shares), and libc's under glog's
// local time.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_suppressions() {
  return "race:libdnnl.so\nrace:^dnnl::\nrace:google::LogMessageTime\n";
}

namespace soapstone::apps {
namespace {

class InprocCluster : public ::testing::TestWithParam<const char*> {};

TEST_P(InprocCluster, TrainsAndEverybodyExitsZero) {
  InprocJob cluster(InprocConfig(GetParam(), 2, 3));
  const std::vector<int> codes = cluster.Run();
  EXPECT_TRUE(AllZero(codes)) << ::testing::PrintToString(codes);
  const ResultReport result = cluster.reports().result();
  EXPECT_GT(result.test_accuracy, 0.8);
  EXPECT_EQ(result.sha256.size(), 64u);
  EXPECT_EQ(result.rejects + result.malformed, 0u);
  EXPECT_GT(result.pushed_bytes, 0u);
  EXPECT_GT(cluster.Ledger().read_lags.count(), 0u);
  EXPECT_EQ(cluster.Ledger().violations, 0u);
  ASSERT_EQ(result.times.size(), 3u);
  for (const WorkerTimes& times : result.times) EXPECT_GT(times.compute, 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, InprocCluster,
                         ::testing::Values("bsp", "ssp:s=0", "ssp:s=2", "async",
                                           "easgd:tau=4,beta=0.9,mode=sync",
                                           "easgd:tau=4,beta=0.9,mode=async"));

TEST(InprocClusterRuns, PeersKeepTheirWord) {
  for (const std::string& policy : consistency::ExamplePeerPolicies()) {
    wire::JobConfig config = InprocConfig(policy, 1, 3);
    config.set_strict(true);
    InprocJob cluster(std::move(config));
    EXPECT_TRUE(AllZero(cluster.Run())) << policy << " " << cluster.reports().result().reason;
    EXPECT_TRUE(cluster.Violations().empty()) << policy;
    // Without rounds, what a run comes to depends on who is let run first.
    const consistency::PolicyTraits traits = *consistency::ParsePolicy(policy);
    const auto* collective = std::get_if<consistency::CollectiveTraits>(&traits.peers());
    const bool mixes = std::holds_alternative<consistency::MixingTraits>(traits.peers());
    const bool whole = collective != nullptr && collective->partial == consistency::Partial::kNone;
    if (!mixes && !whole) continue;
    EXPECT_GT(cluster.reports().result().test_accuracy, 0.7) << policy;
  }
}

// Workers that do not listen cannot reach each other: said, where the job would wait for ever.
TEST(InprocClusterRuns, APeerThatListensNowhereIsRefused) {
  auto job = PrepareJob(InprocConfig("gossip:mode=dpsgd", 1, 2));
  ASSERT_TRUE(job.ok());
  transport::InprocNetwork network;
  auto scheduler = network.Join(kInprocScheduler);
  auto transport = network.Join("");
  ASSERT_TRUE((*transport)->Connect(wire::Address::Scheduler(), kInprocScheduler).ok());
  WorkerNode worker(*job, *std::move(transport), Registration{0, 1}, nullptr);
  EXPECT_EQ(worker.Run(), kExitConfig);
}

TEST(InprocClusterRuns, BspBitsDoNotDependOnTheCluster) {
  std::vector<std::string> hashes;
  for (const auto& [servers, workers] : std::vector<std::pair<int, int>>{{1, 1}, {3, 4}}) {
    InprocJob cluster(InprocConfig("bsp", servers, workers));
    EXPECT_TRUE(AllZero(cluster.Run()));
    hashes.push_back(cluster.reports().result().sha256);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

// A worker whose values do not come asks again: nothing hangs, and no bit differs.
TEST(InprocClusterRuns, AnswersThatAServerLosesAreAskedForAgain) {
  std::vector<std::string> hashes;
  for (const int lost : {0, 3}) {
    wire::JobConfig config = InprocConfig("bsp", 2, 3);
    config.mutable_cluster()->set_heartbeat_timeout_s(lost > 0 ? 1 : 20);
    InprocJob cluster(std::move(config));
    cluster.LoseAnswers(lost);
    EXPECT_TRUE(AllZero(cluster.Run()));
    EXPECT_TRUE(cluster.answers_are_lost());
    hashes.push_back(cluster.reports().result().sha256);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(InprocClusterRuns, BspBitsDoNotDependOnTheOrderOfSending) {
  std::vector<std::string> hashes;
  for (const char* order : {"fifo", "priority"}) {
    wire::JobConfig config = InprocConfig("bsp", 2, 3);
    config.set_model("lenet5");
    config.mutable_training()->set_epochs(1);
    config.mutable_cluster()->set_shards_per_server(4);
    config.mutable_cluster()->set_communication(order);
    InprocJob cluster(std::move(config));
    EXPECT_TRUE(AllZero(cluster.Run()));
    EXPECT_EQ(cluster.reports().result().rejects, 0u);
    EXPECT_EQ(cluster.Ledger().violations, 0u);
    hashes.push_back(cluster.reports().result().sha256);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(InprocClusterRuns, ByStagesUnderOtherPolicies) {
  for (const char* policy : {"ssp:s=2", "async"}) {
    wire::JobConfig config = InprocConfig(policy, 1, 2);
    config.mutable_cluster()->set_shards_per_server(3);
    config.mutable_cluster()->set_communication("priority");
    InprocJob cluster(std::move(config));
    EXPECT_TRUE(AllZero(cluster.Run()));
    EXPECT_GT(cluster.reports().result().test_accuracy, 0.8) << policy;
    EXPECT_EQ(cluster.Ledger().violations, 0u);
  }
}

TEST(InprocClusterRuns, SeveralShardsAServer) {
  wire::JobConfig config = InprocConfig("ssp:s=1", 2, 2);
  config.mutable_cluster()->set_shards_per_server(3);
  InprocJob cluster(std::move(config));
  EXPECT_TRUE(AllZero(cluster.Run()));
}

TEST(InprocClusterRuns, StoppedSchedulerEndsEverybody) {
  wire::JobConfig config = InprocConfig("async", 1, 2);
  config.mutable_training()->set_epochs(100'000);
  InprocJob cluster(std::move(config));
  cluster.reports().on_start = [&] { cluster.scheduler()->RequestStop(kExitTerminated); };
  for (const int code : cluster.Run()) EXPECT_EQ(code, kExitTerminated);
  EXPECT_EQ(cluster.reports().result().code, kExitTerminated);
}

TEST(InprocClusterRuns, AWorkerThatLeavesIsNotMissed) {
  wire::JobConfig config = InprocConfig("ssp:s=2", 1, 3);
  config.mutable_training()->set_epochs(20);
  InprocJob cluster(std::move(config));
  cluster.reports().on_start = [&] { cluster.worker(2)->RequestStop(kExitTerminated); };
  const std::vector<int> codes = cluster.Run();
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 0, 0, kExitTerminated}));
  EXPECT_GT(cluster.reports().result().test_accuracy, 0.8);
}

// Heartbeats are the loop's own: they do not say that a loop lives which hangs.
TEST(InprocClusterRuns, AServerWhoseLoopHangsIsCountedOut) {
  wire::JobConfig config = InprocConfig("async", 1, 2);
  config.mutable_training()->set_epochs(100'000);
  config.mutable_cluster()->set_heartbeat_timeout_s(3);
  InprocJob cluster(std::move(config));
  cluster.reports().on_start = [&] { cluster.HangServer(); };
  for (const int code : cluster.Run()) EXPECT_EQ(code, kExitPeerLost);
  EXPECT_THAT(cluster.reports().result().reason,
              ::testing::HasSubstr("server 0 lost: no heartbeat for"));
}

// One worker at a quarter of the other's speed under a gate that lets them differ by 3, while the
// job claims that reads never lag.
wire::JobConfig OfUnequalWorkers() {
  wire::JobConfig config = InprocConfig("ssp:s=3", 2, 2);
  config.mutable_training()->set_stragglers("slow:workers=1,factor=4");
  config.mutable_training()->set_base_ms(2);
  return config;
}
constexpr consistency::Guarantee kNoLag = {.read_lag_max = 0};

TEST(InprocClusterRuns, ABrokenGuaranteeIsCounted) {
  InprocJob cluster(OfUnequalWorkers(), kNoLag);
  EXPECT_TRUE(AllZero(cluster.Run()));
  EXPECT_GT(cluster.Ledger().violations, 0u);
  EXPECT_GT(cluster.Ledger().read_lags.max(), 0u);
}

TEST(InprocClusterRuns, ABrokenGuaranteeEndsAStrictJob) {
  wire::JobConfig config = OfUnequalWorkers();
  config.set_strict(true);
  config.mutable_training()->set_epochs(100'000);
  InprocJob cluster(std::move(config), kNoLag);
  for (const int code : cluster.Run()) EXPECT_EQ(code, kExitBroken);
  EXPECT_EQ(cluster.reports().result().code, kExitBroken);
  EXPECT_THAT(cluster.reports().result().reason,
              ::testing::MatchesRegex("ssp:s=3 broke its guarantee: shard [01]: a read of worker "
                                      "[01] at clock [0-9]+ lags by [0-9]; the bound is 0"));
}

TEST(InprocClusterRuns, AStrictJobThatKeepsItsGuaranteeEndsWell) {
  wire::JobConfig config = OfUnequalWorkers();
  config.set_strict(true);
  InprocJob cluster(std::move(config));
  EXPECT_TRUE(AllZero(cluster.Run()));
  EXPECT_EQ(cluster.Ledger().read_lags.max(), 3u);
}

using server::StoreFault;
using FaultName = std::pair<const char*, StoreFault>;
constexpr FaultName kUpdateFaults[] = {{"drops", StoreFault::kDropsUpdates},
                                       {"doubles", StoreFault::kDoublesUpdates},
                                       {"reorders", StoreFault::kReordersUpdates},
                                       {"answers older", StoreFault::kAnswersOlder},
                                       {"older content", StoreFault::kOlderContent}};
constexpr FaultName kFinalFaults[] = {{"final older", StoreFault::kFinalOlder},
                                      {"saves older", StoreFault::kSavesOlder},
                                      {"final content", StoreFault::kFinalContent}};

// A strict job over stores with this fault ends with 76, and with one line that says who found
// what. Returns what the ledgers have found.
std::vector<ViolationRow> ExpectBroken(wire::JobConfig config, const FaultName& fault) {
  config.set_strict(true);
  const std::string policy = config.policy();
  InprocJob cluster(std::move(config), std::nullopt, fault.second);
  for (const int code : cluster.Run()) EXPECT_EQ(code, kExitBroken) << policy << " " << fault.first;
  const std::string reason = cluster.reports().result().reason;
  EXPECT_THAT(reason, ::testing::ContainsRegex("broke its guarantee: .*(worker|peer|shard)"))
      << policy << " " << fault.first;
  std::vector<ViolationRow> found = cluster.Violations();
  EXPECT_FALSE(found.empty()) << policy << " " << fault.first;
  std::printf("%-42s %-14s %s\n", policy.c_str(), fault.first, reason.c_str());
  return found;
}

// A ledger of a shard, a worker or a peer finds it within two clocks of the first update.
void ExpectBrokenSoon(const std::string& policy, const FaultName& fault) {
  wire::JobConfig config = InprocConfig(policy, 1, 3);
  config.mutable_training()->set_epochs(100'000);
  Clock first = kClockMax;
  for (const ViolationRow& row : ExpectBroken(std::move(config), fault)) {
    first = std::min(first, row.clock);
  }
  EXPECT_LE(first, 2) << policy << " " << fault.first;
}

TEST(InprocClusterFaults, AStoreThatBreaksItsWordEndsAStrictJob) {
  for (const char* policy : {"bsp", "ssp:s=0", "async"}) {
    for (const FaultName& fault : kUpdateFaults) ExpectBrokenSoon(policy, fault);
  }
}

TEST(InprocClusterFaults, PeersThatBreakTheirWordEndAStrictJob) {
  for (const std::string& policy : consistency::ExamplePeerPolicies()) {
    for (const FaultName& fault : kUpdateFaults) ExpectBrokenSoon(policy, fault);
    wire::JobConfig config = InprocConfig(policy, 1, 3);
    config.mutable_training()->set_epochs(100'000);
    ExpectBroken(config, {"drops parcels", StoreFault::kDropsParcels});
    if (!consistency::ParsePolicy(policy)->guarantee.same_replicas) continue;
    const std::vector<ViolationRow> found =
        ExpectBroken(config, {"loses parcels", StoreFault::kLosesParcels});
    EXPECT_THAT(found, ::testing::Contains(::testing::Field(&ViolationRow::kind, "replicas")));
    EXPECT_LE(found[0].clock, 2) << policy;
  }
}

TEST(InprocClusterFaults, AFinalReadOfWhatWasEndsAStrictJob) {
  for (const char* policy : {"bsp", "ssp:s=0", "async", "allreduce", "gossip:mode=pushsum"}) {
    for (const FaultName& fault : kFinalFaults) ExpectBroken(InprocConfig(policy, 2, 2), fault);
  }
}

// Labels that the only feature tells.
wire::JobConfig OfRows(const std::string& policy) {
  const std::string path = ::testing::TempDir() + "/rows.libsvm";
  std::ofstream file(path);
  for (int i = 0; i < 400; ++i) file << (i % 2 == 0 ? "1 1:1 " : "-1 2:1 ") << 3 + i % 7 << ":1\n";
  file.close();
  wire::JobConfig config = InprocConfig(policy, 2, 2);
  config.set_model("logistic");
  config.mutable_data()->set_format("libsvm");
  config.mutable_data()->set_path(path);
  config.mutable_training()->set_optimizer("ftrl:lr=0.2");
  return config;
}

TEST(InprocClusterFaults, RowsThatWereEndAStrictJob) {
  for (const char* policy : {"bsp", "ssp:s=0", "async"}) {
    wire::JobConfig whole = OfRows(policy);
    whole.set_strict(true);
    InprocJob cluster(std::move(whole));
    EXPECT_TRUE(AllZero(cluster.Run())) << policy;
    EXPECT_TRUE(cluster.Violations().empty()) << policy;
    const FaultName fault = {"older rows", StoreFault::kOlderContent};
    const std::vector<ViolationRow> found = ExpectBroken(OfRows(policy), fault);
    EXPECT_THAT(found, ::testing::Contains(::testing::Field(&ViolationRow::kind, "content")))
        << policy;
    ExpectBroken(OfRows(policy), {"saves older", StoreFault::kSavesOlder});
  }
}

// A job that is not strict goes on, and says what was found, and by whom.
TEST(InprocClusterFaults, WhatWorkersAndPeersFindIsReported) {
  InprocJob cluster(InprocConfig("gossip:mode=dpsgd", 1, 2), std::nullopt,
                    StoreFault::kDropsUpdates);
  EXPECT_TRUE(AllZero(cluster.Run()));
  const std::vector<ViolationRow> found = cluster.Violations();
  for (const char* by : {"peer 0", "peer 1", "worker 0", "worker 1"}) {
    EXPECT_THAT(found, ::testing::Contains(::testing::Field(&ViolationRow::by, by)));
  }
  uint64_t of_workers = 0;
  for (const ViolationRow& row : found) {
    if (row.by.starts_with("shard")) continue;  // of the hand-ins
    of_workers += row.times;
    EXPECT_TRUE(row.kind == "steps" || row.clock == 1) << row.kind << row.clock;
  }
  uint64_t told = 0;
  for (const Report& report : cluster.reports().reports) {
    const auto* news = std::get_if<News>(&report);
    if (news != nullptr && news->text.find("was broken") != std::string::npos) ++told;
  }
  EXPECT_EQ(told, 2u);
  // What the final read shows comes after the last word of most.
  EXPECT_GT(cluster.reports().result().violations, 0u);
  EXPECT_LE(cluster.reports().result().violations, of_workers);
}

}  // namespace
}  // namespace soapstone::apps
