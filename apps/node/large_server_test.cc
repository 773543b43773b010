// A server alone with a model of 10^9 parameters: it makes them, hands them over to itself, hashes
// and writes them, and says that it lives all the while. The scheduler is played by hand.
// SOAPSTONE_PARAMETERS in the environment: another number of parameters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/loop/node_loop.h"
#include "apps/node/server_node.h"
#include "apps/node/status_host.h"
#include "apps/report/process_memory.h"
#include "base/sha256.h"
#include "base/steady_clock.h"
#include "transport/inproc_transport.h"

namespace soapstone::apps {
namespace {

constexpr char kScheduler[] = "inproc://scheduler";
constexpr uint64_t kSession = 7;
constexpr absl::Duration kLargePatience = absl::Seconds(60);  // without a word of progress

uint64_t Parameters() {
  const char* text = getenv("SOAPSTONE_PARAMETERS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1'000'000'000;
}

// mlp of h and h / 2 units over one feature has about h * h / 2 parameters.
wire::JobConfig LargeConfig(const std::string& dir) {
  std::ofstream(dir + "/data.csv") << "0.5,0\n1,1\n0.25,0\n0.75,1\n";
  wire::JobConfig config;
  config.set_model(absl::StrCat(
      "mlp:hidden=", static_cast<int>(std::sqrt(2 * static_cast<double>(Parameters()))) / 2 * 2));
  config.set_policy("bsp");
  config.mutable_data()->set_format("csv");
  config.mutable_data()->set_path(dir + "/data.csv");
  config.mutable_training()->set_epochs(1);
  config.mutable_training()->set_batch(1);
  config.mutable_cluster()->set_scheduler(kScheduler);
  config.mutable_cluster()->set_servers(1);
  config.mutable_cluster()->set_workers(1);
  config.mutable_output()->set_model_path(dir + "/model.safetensors");
  FillDefaults(&config);
  return config;
}

class HandPlayedScheduler {
 public:
  HandPlayedScheduler(transport::InprocNetwork* network, std::shared_ptr<const Job> job)
      : job_(std::move(job)), transport_(*network->Join(kScheduler)) {
    transport_->SetSelf(wire::Address::Scheduler());
    transport_->SetSession(kSession);
  }

  // The next message of `type`; answers heartbeats meanwhile, and keeps account of them.
  wire::Message Await(wire::MessageType type) {
    SteadyTime patience_ends = SteadyNow() + kLargePatience;
    while (SteadyNow() < patience_ends) {
      std::optional<wire::Message> message = transport_->Receive(SteadyNow() + absl::Seconds(1));
      if (!message.has_value()) continue;
      if (message->type == wire::MessageType::kHeartbeat && NoteHeartbeat(*message)) {
        patience_ends = SteadyNow() + kLargePatience;
      }
      if (message->type == type) return *std::move(message);
    }
    ADD_FAILURE() << "no message of type " << static_cast<int>(type);
    return {};
  }

  void Send(wire::Address to, wire::MessageType type, wire::Body body, Epoch epoch = 0) {
    wire::Message message;
    message.type = type;
    message.from = wire::Address::Scheduler();
    message.to = to;
    message.epoch = epoch;
    message.body = std::move(body);
    const bool shard = to.role == wire::Role::kShard;
    const wire::Address node = shard ? wire::Address::Of(ServerId{0}) : to;
    const absl::Status sent = transport_->Send(welcomed_ ? server_ : node, message);
    EXPECT_TRUE(sent.ok()) << sent;
  }

  void Welcome(const wire::Message& hello) {
    server_ = hello.from;
    welcomed_ = true;
    Send(hello.from, wire::MessageType::kWelcome,
         wire::Welcome{0, std::get<wire::Hello>(hello.body).nonce});
  }

  absl::Duration greatest_gap() const { return gap_max_; }
  size_t steps_of_progress() const { return steps_; }

 private:
  // Whether it came forward.
  bool NoteHeartbeat(const wire::Message& message) {
    const SteadyTime now = SteadyNow();
    server_ = message.from;
    if (heard_.has_value()) gap_max_ = std::max(gap_max_, now - *heard_);
    heard_ = now;
    Send(message.from, wire::MessageType::kHeartbeatAck, {});
    const auto* work = std::get_if<wire::SlowWork>(&message.body);
    if (work == nullptr) return false;
    EXPECT_EQ(work->total_bytes, job_->layout->elements() * sizeof(float));
    const bool forward = *work != work_;
    work_ = *work;
    if (forward) ++steps_;
    return forward;
  }

  std::shared_ptr<const Job> job_;
  std::unique_ptr<transport::Transport> transport_;
  wire::Address server_;
  bool welcomed_ = false;
  std::optional<SteadyTime> heard_;
  absl::Duration gap_max_;
  wire::SlowWork work_;
  size_t steps_ = 0;
};

// Looks at a node's health all the while, as an orchestrator's probes do.
class Watcher {
 public:
  explicit Watcher(StatusHost& pages)
      : thread_([this, &pages](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            const int code = pages.PageOf("/healthz", NodeLoop::Now())->code;
            ++looks_;
            if (code != 200) ++unwell_;
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
        }) {}
  void Stop() {
    thread_.request_stop();
    thread_.join();
  }
  size_t looks() const { return looks_; }  // after Stop
  size_t unwell() const { return unwell_; }

 private:
  size_t looks_ = 0;
  size_t unwell_ = 0;
  std::jthread thread_;  // last: it counts in the others
};

// Of the file's last `bytes`, its values.
std::string HashOfValues(const std::string& path, uint64_t bytes) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(-static_cast<std::streamoff>(bytes), std::ios::end);
  Sha256 hash;
  std::vector<char> piece(1 << 20);
  for (uint64_t left = bytes; left > 0 && file;) {
    const uint64_t size = std::min<uint64_t>(left, piece.size());
    file.read(piece.data(), static_cast<std::streamsize>(size));
    hash.Update(piece.data(), size);
    left -= size;
  }
  return hash.HexDigest();
}

// To the server and its shard, as all rosters go.
void SendRoster(const wire::Roster& roster, Epoch epoch, HandPlayedScheduler* scheduler) {
  scheduler->Send(wire::Address::Of(ShardId{0}), wire::MessageType::kRoster, roster, epoch);
  scheduler->Send(wire::Address::Of(ServerId{0}), wire::MessageType::kRoster, roster, epoch);
}

TEST(LargeServer, MakesHandsOverHashesAndWritesWithoutASilence) {
  const std::string dir = absl::StrCat(::testing::TempDir(), "/large-server-", getpid());
  std::filesystem::create_directories(dir);
  auto job = PrepareJob(LargeConfig(dir));
  ASSERT_TRUE(job.ok()) << job.status();
  const uint64_t bytes = (*job)->layout->elements() * sizeof(float);
  transport::InprocNetwork network;
  HandPlayedScheduler scheduler(&network, *job);
  auto transport = network.Join("inproc://server-0");
  ASSERT_TRUE(transport.ok()) << transport.status();
  ASSERT_TRUE((*transport)->Connect(wire::Address::Scheduler(), kScheduler).ok());
  ServerNode node(*job, *std::move(transport), Registration{0, 1}, nullptr);
  auto pages = StatusHost::Start({.address = "127.0.0.1:0"}, {});
  ASSERT_TRUE(pages.ok()) << pages.status();
  node.ShowAt(pages->get());
  Watcher watcher(**pages);
  int code = -1;
  std::jthread server([&] { code = node.Run(); });

  scheduler.Welcome(scheduler.Await(wire::MessageType::kHello));
  scheduler.Await(wire::MessageType::kHeartbeat);
  wire::Roster roster;
  roster.worker_count = 1;
  roster.workers.push_back({.worker = WorkerId{0}, .admitted = 1});
  roster.servers.push_back({ServerId{0}, "inproc://server-0"});
  SendRoster(roster, 1, &scheduler);
  const SteadyTime began = SteadyNow();
  EXPECT_EQ(scheduler.Await(wire::MessageType::kRosterAck).epoch, 1u);
  const SteadyTime made = SteadyNow();
  // A shard hands its values out once no member has an update to send any more.
  roster.workers = {};
  SendRoster(roster, 2, &scheduler);
  scheduler.Send(wire::Address::Of(ServerId{0}), wire::MessageType::kSave, wire::Save{}, 2);
  const wire::Message saved = scheduler.Await(wire::MessageType::kSaved);
  const SteadyTime written = SteadyNow();
  watcher.Stop();
  scheduler.Send(wire::Address::Of(ServerId{0}), wire::MessageType::kShutdown,
                 wire::Notice{0, "done"});
  server.join();
  EXPECT_EQ(code, 0);

  const auto* what = std::get_if<wire::Saved>(&saved.body);
  ASSERT_NE(what, nullptr);
  EXPECT_EQ(what->sha256, HashOfValues(what->path, bytes));
  const uint64_t resident = ReadResidentMemory().peak_bytes;
  std::printf(
      "%.3f G parameters: made in %.1f s, gathered, hashed and written in %.1f s; greatest "
      "gap %.2f s, %zu steps of progress, %.2f bytes resident a parameter\n",
      static_cast<double>(bytes) / 4e9, absl::ToDoubleSeconds(made - began),
      absl::ToDoubleSeconds(written - made), absl::ToDoubleSeconds(scheduler.greatest_gap()),
      scheduler.steps_of_progress(),
      4.0 * static_cast<double>(resident) / static_cast<double>(bytes));
  EXPECT_LE(scheduler.greatest_gap(), absl::Seconds(2));
  EXPECT_GT(watcher.looks(), 20u);
  EXPECT_EQ(watcher.unwell(), 0u) << "/healthz of a server at work";
  EXPECT_GE(scheduler.steps_of_progress(), bytes < 1'000'000'000 ? 1u : 2u);
  // The values, a version being made, a worker's gradient: of which there is none here.
  EXPECT_LE(static_cast<double>(resident), 1.15 * 3 * static_cast<double>(bytes) + (64 << 20));
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace soapstone::apps
