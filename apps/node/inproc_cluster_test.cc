// A whole cluster in one process, each node on threads of its own, over the in-process transport:
// the shells, actors and kernels of the real one. ThreadSanitizer watches this.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "apps/node/scheduler_node.h"
#include "apps/node/server_node.h"
#include "apps/node/worker_node.h"
#include "base/exit_codes.h"
#include "base/steady_clock.h"
#include "consistency/catalogue.h"
#include "transport/inproc_transport.h"

// ThreadSanitizer does not see the locks inside libraries that were built without it: oneDNN's once
// its first kernel is made (nor do its headers' copies of what it shares), and libc's under glog's
// local time.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_suppressions() {
  return "race:libdnnl.so\nrace:^dnnl::\nrace:google::LogMessageTime\n";
}

namespace soapstone::apps {
namespace {

constexpr char kScheduler[] = "inproc://scheduler";

struct KeepReports : ReportSink {
  void Take(const Report& report) override {
    reports.push_back(report);
    const auto* news = std::get_if<News>(&report);
    if (news != nullptr && news->text == "started" && on_start) on_start();
  }
  std::function<void()> on_start;  // called once all have registered, on the scheduler's thread
  std::vector<Report> reports;
  ResultReport result() const {
    for (const Report& report : reports) {
      if (const auto* result = std::get_if<ResultReport>(&report)) return *result;
    }
    return {.code = -1};
  }
};

wire::JobConfig Config(const std::string& policy, uint32_t servers, uint32_t workers) {
  wire::JobConfig config;
  config.set_model("softmax");
  config.set_policy(policy);
  config.mutable_data()->set_path(SOAPSTONE_SOURCE_DIR "/data/digits/digits.csv.gz");
  wire::Training* training = config.mutable_training();
  training->set_epochs(2);
  training->set_batch(64);
  training->set_micro_batches(4);
  training->set_optimizer("momentum:lr=0.05,mu=0.9,decay=1e-4");
  wire::Cluster* cluster = config.mutable_cluster();
  cluster->set_scheduler(kScheduler);
  cluster->set_servers(servers);
  cluster->set_workers(workers);
  cluster->set_heartbeat_s(0.1);
  cluster->set_heartbeat_timeout_s(20);  // sanitizers and busy machines are slow
  FillDefaults(&config);
  return config;
}

// A loop that hangs: from `hang` on it takes nothing in until `release`. And one that loses
// answers: each seventh to a pull, as long as there are `to_lose`.
class FaultyTransport : public transport::Transport {
 public:
  FaultyTransport(std::unique_ptr<transport::Transport> inside, absl::Notification* hang,
                  absl::Notification* release, std::atomic<int>* to_lose)
      : inside_(std::move(inside)), hang_(hang), release_(release), to_lose_(to_lose) {}
  absl::Status Connect(wire::Address peer, const std::string& endpoint) override {
    return inside_->Connect(peer, endpoint);
  }
  void SetSelf(wire::Address self) override { inside_->SetSelf(self); }
  void SetSession(uint64_t session) override { inside_->SetSession(session); }
  absl::Status Send(wire::Address node, const wire::Message& message) override {
    const bool seventh = message.type == wire::MessageType::kPullReply && ++answers_ % 7 == 0;
    if (seventh && to_lose_->load() > 0) {
      --*to_lose_;
      return absl::OkStatus();
    }
    return inside_->Send(node, message);
  }
  std::optional<wire::Message> Receive(SteadyTime deadline) override {
    if (hang_->HasBeenNotified()) release_->WaitForNotification();
    return inside_->Receive(deadline);
  }
  void Wake() override { inside_->Wake(); }
  void Close(absl::Duration linger) override { inside_->Close(linger); }
  std::string endpoint() const override { return inside_->endpoint(); }
  transport::TransportStats stats() const override { return inside_->stats(); }

 private:
  std::unique_ptr<transport::Transport> inside_;
  absl::Notification* hang_;
  absl::Notification* release_;
  std::atomic<int>* to_lose_;
  int answers_ = 0;
};

// The cluster of one job.
class Cluster {
 public:
  // `claimed`: what the policy is said to keep, if not its own guarantee. `fault`: of all stores.
  explicit Cluster(wire::JobConfig config,
                   const std::optional<consistency::Guarantee>& claimed = std::nullopt,
                   server::StoreFault fault = server::StoreFault::kNone) {
    auto prepared = PrepareJob(std::move(config));
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    Job job = **prepared;
    if (claimed.has_value()) job.specs.policy.guarantee = *claimed;
    job.store_fault = fault;
    job_ = std::make_shared<const Job>(std::move(job));
    scheduler_ = std::make_unique<SchedulerNode>(job_, Join(kScheduler), 42, &reports_);
    const wire::Cluster& size = job_->config.cluster();
    for (uint32_t i = 0; i < size.servers(); ++i) {
      server_reports_.push_back(std::make_unique<KeepReports>());
      servers_.push_back(
          std::make_unique<ServerNode>(job_, Join("inproc://server-" + std::to_string(i)),
                                       Registration{i, ++nonce_}, server_reports_.back().get()));
    }
    for (uint32_t i = 0; i < size.workers(); ++i) {
      worker_reports_.push_back(std::make_unique<KeepReports>());
      workers_.push_back(
          std::make_unique<WorkerNode>(job_, Join("inproc://worker-" + std::to_string(i)),
                                       Registration{i, ++nonce_}, worker_reports_.back().get()));
    }
  }

  // Runs the job to its end; the exit codes, the scheduler's first.
  std::vector<int> Run() {
    std::vector<int> codes(1 + servers_.size() + workers_.size(), -1);
    {
      std::vector<std::jthread> threads;
      size_t next = 0;
      const auto start = [&](auto* node) {
        const bool is_scheduler = next == 0;
        threads.emplace_back([this, node, is_scheduler, code = &codes[next]] {
          *code = node->Run();
          if (is_scheduler) scheduler_ended_.Notify();
        });
        ++next;
      };
      start(scheduler_.get());
      for (auto& server : servers_) start(server.get());
      for (auto& worker : workers_) start(worker.get());
    }
    return codes;
  }

  SchedulerNode* scheduler() { return scheduler_.get(); }
  WorkerNode* worker(size_t i) { return workers_[i].get(); }
  // From then on server 0's loop hangs until the scheduler has ended.
  void HangServer() { hang_server_.Notify(); }
  // Server 0 loses so many of its answers.
  void LoseAnswers(int count) { answers_to_lose_ = count; }
  bool answers_are_lost() const { return answers_to_lose_ == 0; }
  KeepReports& reports() { return reports_; }
  // After Run: the ledgers of all shards.
  LedgerRow Ledger() const { return TotalOf(NodesOf(server_reports_)); }
  // Likewise: what the ledgers of shards, workers and peers have found.
  std::vector<ViolationRow> Violations() const {
    std::vector<ViolationRow> all = ViolationsOf(NodesOf(server_reports_));
    for (ViolationRow& row : ViolationsOf(NodesOf(worker_reports_))) all.push_back(std::move(row));
    return all;
  }

 private:
  static std::vector<NodeReport> NodesOf(const std::vector<std::unique_ptr<KeepReports>>& all) {
    std::vector<NodeReport> nodes;
    for (const auto& kept : all) {
      for (const Report& report : kept->reports) nodes.push_back(std::get<NodeReport>(report));
    }
    return nodes;
  }
  std::unique_ptr<transport::Transport> Join(const std::string& name) {
    auto transport = network_.Join(name);
    EXPECT_TRUE(transport.ok()) << transport.status();
    if (name != kScheduler) {
      EXPECT_TRUE((*transport)->Connect(wire::Address::Scheduler(), kScheduler).ok());
    }
    if (name == "inproc://server-0") {
      return std::make_unique<FaultyTransport>(*std::move(transport), &hang_server_,
                                               &scheduler_ended_, &answers_to_lose_);
    }
    return *std::move(transport);
  }

  absl::Notification hang_server_, scheduler_ended_;
  std::atomic<int> answers_to_lose_ = 0;
  transport::InprocNetwork network_;
  std::shared_ptr<const Job> job_;
  KeepReports reports_;
  uint64_t nonce_ = 0;
  std::unique_ptr<SchedulerNode> scheduler_;
  std::vector<std::unique_ptr<KeepReports>> server_reports_;  // each on its server's thread
  std::vector<std::unique_ptr<KeepReports>> worker_reports_;  // likewise
  std::vector<std::unique_ptr<ServerNode>> servers_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;
};

bool AllZero(const std::vector<int>& codes) {
  return std::all_of(codes.begin(), codes.end(), [](int code) { return code == 0; });
}

class InprocCluster : public ::testing::TestWithParam<const char*> {};

TEST_P(InprocCluster, TrainsAndEverybodyExitsZero) {
  Cluster cluster(Config(GetParam(), 2, 3));
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
    wire::JobConfig config = Config(policy, 1, 3);
    config.set_strict(true);
    Cluster cluster(std::move(config));
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
  auto job = PrepareJob(Config("gossip:mode=dpsgd", 1, 2));
  ASSERT_TRUE(job.ok());
  transport::InprocNetwork network;
  auto scheduler = network.Join(kScheduler);
  auto transport = network.Join("");
  ASSERT_TRUE((*transport)->Connect(wire::Address::Scheduler(), kScheduler).ok());
  WorkerNode worker(*job, *std::move(transport), Registration{0, 1}, nullptr);
  EXPECT_EQ(worker.Run(), kExitConfig);
}

TEST(InprocClusterRuns, BspBitsDoNotDependOnTheCluster) {
  std::vector<std::string> hashes;
  for (const auto& [servers, workers] : std::vector<std::pair<int, int>>{{1, 1}, {3, 4}}) {
    Cluster cluster(Config("bsp", servers, workers));
    EXPECT_TRUE(AllZero(cluster.Run()));
    hashes.push_back(cluster.reports().result().sha256);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

// A worker whose values do not come asks again: nothing hangs, and no bit differs.
TEST(InprocClusterRuns, AnswersThatAServerLosesAreAskedForAgain) {
  std::vector<std::string> hashes;
  for (const int lost : {0, 3}) {
    wire::JobConfig config = Config("bsp", 2, 3);
    config.mutable_cluster()->set_heartbeat_timeout_s(lost > 0 ? 1 : 20);
    Cluster cluster(std::move(config));
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
    wire::JobConfig config = Config("bsp", 2, 3);
    config.set_model("lenet5");
    config.mutable_training()->set_epochs(1);
    config.mutable_cluster()->set_shards_per_server(4);
    config.mutable_cluster()->set_communication(order);
    Cluster cluster(std::move(config));
    EXPECT_TRUE(AllZero(cluster.Run()));
    EXPECT_EQ(cluster.reports().result().rejects, 0u);
    EXPECT_EQ(cluster.Ledger().violations, 0u);
    hashes.push_back(cluster.reports().result().sha256);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(InprocClusterRuns, ByStagesUnderOtherPolicies) {
  for (const char* policy : {"ssp:s=2", "async"}) {
    wire::JobConfig config = Config(policy, 1, 2);
    config.mutable_cluster()->set_shards_per_server(3);
    config.mutable_cluster()->set_communication("priority");
    Cluster cluster(std::move(config));
    EXPECT_TRUE(AllZero(cluster.Run()));
    EXPECT_GT(cluster.reports().result().test_accuracy, 0.8) << policy;
    EXPECT_EQ(cluster.Ledger().violations, 0u);
  }
}

TEST(InprocClusterRuns, SeveralShardsAServer) {
  wire::JobConfig config = Config("ssp:s=1", 2, 2);
  config.mutable_cluster()->set_shards_per_server(3);
  Cluster cluster(std::move(config));
  EXPECT_TRUE(AllZero(cluster.Run()));
}

TEST(InprocClusterRuns, StoppedSchedulerEndsEverybody) {
  wire::JobConfig config = Config("async", 1, 2);
  config.mutable_training()->set_epochs(100'000);
  Cluster cluster(std::move(config));
  cluster.reports().on_start = [&] { cluster.scheduler()->RequestStop(kExitTerminated); };
  for (const int code : cluster.Run()) EXPECT_EQ(code, kExitTerminated);
  EXPECT_EQ(cluster.reports().result().code, kExitTerminated);
}

TEST(InprocClusterRuns, AWorkerThatLeavesIsNotMissed) {
  wire::JobConfig config = Config("ssp:s=2", 1, 3);
  config.mutable_training()->set_epochs(20);
  Cluster cluster(std::move(config));
  cluster.reports().on_start = [&] { cluster.worker(2)->RequestStop(kExitTerminated); };
  const std::vector<int> codes = cluster.Run();
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 0, 0, kExitTerminated}));
  EXPECT_GT(cluster.reports().result().test_accuracy, 0.8);
}

// Heartbeats are the loop's own: they do not say that a loop lives which hangs.
TEST(InprocClusterRuns, AServerWhoseLoopHangsIsCountedOut) {
  wire::JobConfig config = Config("async", 1, 2);
  config.mutable_training()->set_epochs(100'000);
  config.mutable_cluster()->set_heartbeat_timeout_s(3);
  Cluster cluster(std::move(config));
  cluster.reports().on_start = [&] { cluster.HangServer(); };
  for (const int code : cluster.Run()) EXPECT_EQ(code, kExitPeerLost);
  EXPECT_THAT(cluster.reports().result().reason,
              ::testing::HasSubstr("server 0 lost: no heartbeat for"));
}

// One worker at a quarter of the other's speed under a gate that lets them differ by 3, while the
// job claims that reads never lag.
wire::JobConfig OfUnequalWorkers() {
  wire::JobConfig config = Config("ssp:s=3", 2, 2);
  config.mutable_training()->set_stragglers("slow:workers=1,factor=4");
  config.mutable_training()->set_base_ms(2);
  return config;
}
constexpr consistency::Guarantee kNoLag = {.read_lag_max = 0};

TEST(InprocClusterRuns, ABrokenGuaranteeIsCounted) {
  Cluster cluster(OfUnequalWorkers(), kNoLag);
  EXPECT_TRUE(AllZero(cluster.Run()));
  EXPECT_GT(cluster.Ledger().violations, 0u);
  EXPECT_GT(cluster.Ledger().read_lags.max(), 0u);
}

TEST(InprocClusterRuns, ABrokenGuaranteeEndsAStrictJob) {
  wire::JobConfig config = OfUnequalWorkers();
  config.set_strict(true);
  config.mutable_training()->set_epochs(100'000);
  Cluster cluster(std::move(config), kNoLag);
  for (const int code : cluster.Run()) EXPECT_EQ(code, kExitBroken);
  EXPECT_EQ(cluster.reports().result().code, kExitBroken);
  EXPECT_THAT(cluster.reports().result().reason,
              ::testing::MatchesRegex("ssp:s=3 broke its guarantee: shard [01]: a read of worker "
                                      "[01] at clock [0-9]+ lags by [0-9]; the bound is 0"));
}

TEST(InprocClusterRuns, AStrictJobThatKeepsItsGuaranteeEndsWell) {
  wire::JobConfig config = OfUnequalWorkers();
  config.set_strict(true);
  Cluster cluster(std::move(config));
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
  Cluster cluster(std::move(config), std::nullopt, fault.second);
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
  wire::JobConfig config = Config(policy, 1, 3);
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
    wire::JobConfig config = Config(policy, 1, 3);
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
    for (const FaultName& fault : kFinalFaults) ExpectBroken(Config(policy, 2, 2), fault);
  }
}

// Labels that the only feature tells.
wire::JobConfig OfRows(const std::string& policy) {
  const std::string path = ::testing::TempDir() + "/rows.libsvm";
  std::ofstream file(path);
  for (int i = 0; i < 400; ++i) file << (i % 2 == 0 ? "1 1:1 " : "-1 2:1 ") << 3 + i % 7 << ":1\n";
  file.close();
  wire::JobConfig config = Config(policy, 2, 2);
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
    Cluster cluster(std::move(whole));
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
  Cluster cluster(Config("gossip:mode=dpsgd", 1, 2), std::nullopt, StoreFault::kDropsUpdates);
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
