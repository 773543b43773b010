// InprocJob: a whole job in one process, for tests: each node on threads of its own, over the
// in-process transport, with the shells, actors and kernels of the real one. Server 0 may hang, or
// lose answers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "apps/node/scheduler_node.h"
#include "apps/node/server_node.h"
#include "apps/node/worker_node.h"
#include "base/steady_clock.h"
#include "transport/inproc_transport.h"

namespace soapstone::apps {

inline constexpr char kInprocScheduler[] = "inproc://scheduler";

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

inline wire::JobConfig InprocConfig(const std::string& policy, uint32_t servers, uint32_t workers) {
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
  cluster->set_scheduler(kInprocScheduler);
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
class InprocJob {
 public:
  // `claimed`: what the policy is said to keep, if not its own guarantee. `fault`: of all stores.
  explicit InprocJob(wire::JobConfig config,
                     const std::optional<consistency::Guarantee>& claimed = std::nullopt,
                     server::StoreFault fault = server::StoreFault::kNone) {
    auto prepared = PrepareJob(std::move(config));
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    Job job = **prepared;
    if (claimed.has_value()) job.specs.policy.guarantee = *claimed;
    job.store_fault = fault;
    job_ = std::make_shared<const Job>(std::move(job));
    scheduler_ = std::make_unique<SchedulerNode>(job_, Join(kInprocScheduler), 42, &reports_);
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
    if (name != kInprocScheduler) {
      EXPECT_TRUE((*transport)->Connect(wire::Address::Scheduler(), kInprocScheduler).ok());
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

inline bool AllZero(const std::vector<int>& codes) {
  return std::all_of(codes.begin(), codes.end(), [](int code) { return code == 0; });
}

}  // namespace soapstone::apps
