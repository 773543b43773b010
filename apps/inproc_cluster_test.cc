// A whole cluster in one process, each node on threads of its own, over the in-process transport:
// the shells, actors and kernels of the real one. ThreadSanitizer watches this.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "apps/scheduler_node.h"
#include "apps/server_node.h"
#include "apps/worker_node.h"
#include "base/exit_codes.h"
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

// A loop that hangs: from `hang` on it takes nothing in until `release`.
class HangingTransport : public transport::Transport {
 public:
  HangingTransport(std::unique_ptr<transport::Transport> inside, absl::Notification* hang,
                   absl::Notification* release)
      : inside_(std::move(inside)), hang_(hang), release_(release) {}
  absl::Status Connect(wire::Address peer, const std::string& endpoint) override {
    return inside_->Connect(peer, endpoint);
  }
  void SetSelf(wire::Address self) override { inside_->SetSelf(self); }
  void SetSession(uint64_t session) override { inside_->SetSession(session); }
  absl::Status Send(wire::Address node, const wire::Message& message) override {
    return inside_->Send(node, message);
  }
  std::optional<wire::Message> Receive(absl::Time deadline) override {
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
                                       Enlisting{i, ++nonce_}, server_reports_.back().get()));
    }
    for (uint32_t i = 0; i < size.workers(); ++i) {
      workers_.push_back(
          std::make_unique<WorkerNode>(job_, Join(""), Enlisting{i, ++nonce_}, nullptr));
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
  KeepReports& reports() { return reports_; }
  // After Run: the ledgers of all shards.
  LedgerRow Ledger() const {
    std::vector<NodeReport> nodes;
    for (const auto& kept : server_reports_) {
      for (const Report& report : kept->reports) nodes.push_back(std::get<NodeReport>(report));
    }
    return TotalOf(nodes);
  }

 private:
  std::unique_ptr<transport::Transport> Join(const std::string& name) {
    auto transport = network_.Join(name);
    EXPECT_TRUE(transport.ok()) << transport.status();
    if (name != kScheduler) {
      EXPECT_TRUE((*transport)->Connect(wire::Address::Scheduler(), kScheduler).ok());
    }
    if (name == "inproc://server-0") {
      return std::make_unique<HangingTransport>(*std::move(transport), &hang_server_,
                                                &scheduler_ended_);
    }
    return *std::move(transport);
  }

  absl::Notification hang_server_, scheduler_ended_;
  transport::InprocNetwork network_;
  std::shared_ptr<const Job> job_;
  KeepReports reports_;
  uint64_t nonce_ = 0;
  std::unique_ptr<SchedulerNode> scheduler_;
  std::vector<std::unique_ptr<KeepReports>> server_reports_;  // each on its server's thread
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

TEST(InprocClusterRuns, BspBitsDoNotDependOnTheCluster) {
  std::vector<std::string> hashes;
  for (const auto& [servers, workers] : std::vector<std::pair<int, int>>{{1, 1}, {3, 4}}) {
    Cluster cluster(Config("bsp", servers, workers));
    EXPECT_TRUE(AllZero(cluster.Run()));
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

// Stores that do not keep their word, under a strict job: a shard's ledger, or a
// worker's own look at what it is answered ends it within two clocks.
TEST(InprocClusterRuns, AStoreThatBreaksItsWordEndsAStrictJob) {
  using server::StoreFault;
  const std::pair<const char*, StoreFault> faults[] = {
      {"drops", StoreFault::kDropsUpdates},
      {"doubles", StoreFault::kDoublesUpdates},
      {"reorders", StoreFault::kReordersUpdates},
      {"answers older", StoreFault::kAnswersOlder},
      {"older content", StoreFault::kOlderContent}};
  for (const char* policy : {"bsp", "ssp:s=0", "async"}) {
    for (const auto& [name, fault] : faults) {
      wire::JobConfig config = Config(policy, 1, 2);
      config.set_strict(true);
      config.mutable_training()->set_epochs(100'000);
      Cluster cluster(std::move(config), std::nullopt, fault);
      for (const int code : cluster.Run()) EXPECT_EQ(code, kExitBroken) << policy << " " << name;
      const std::string reason = cluster.reports().result().reason;
      EXPECT_THAT(reason, ::testing::HasSubstr("broke its guarantee")) << policy << " " << name;
      std::printf("%-20s %-14s %s\n", policy, name, reason.c_str());
    }
  }
}

}  // namespace
}  // namespace soapstone::apps
