// soapstone-schedule-bench: a server, or a worker, of a job whose compute is a profile: the actors,
// loops and transport of the real ones, without a scheduler and without data. Run by
// bench/scripts/schedule_on_shaped_link.py, which puts them at the two ends of a slow link.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/loop/device_thread.h"
#include "apps/loop/node_loop.h"
#include "apps/loop/shard_thread.h"
#include "base/exit_codes.h"
#include "base/steady_clock.h"
#include "bench/profile_device.h"
#include "cluster/actor_options.h"
#include "compute/optimizer.h"
#include "consistency/catalogue.h"
#include "glog/logging.h"
#include "server/shard/shard.h"
#include "transport/node/node_transport.h"
#include "worker/engine.h"

namespace soapstone::bench {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;

constexpr uint64_t kSession = 11;
constexpr Epoch kEpoch = 1;
constexpr size_t kAnswersMax = 65'536;
constexpr Address kServer = {wire::Role::kServer, 0};

struct Flags {
  std::string endpoint;
  uint32_t rank = 0;
  uint32_t workers = 2;
  Clock steps = 12;
  Clock warm_up = 3;
  uint64_t scale = 16;
  double compute_s = 0.5;
  uint32_t shards = 1;
  bool transfer_stages = false;  // shards by layers
  bool priority = false;         // messages are sent by it
  bool fixed = false;            // windows of streams do not adapt
};

LayerProfile ProfileOf(const Flags& flags) {
  return Vgg16(flags.scale, static_cast<Nanos>(flags.compute_s * kSecond));
}

// Its samples are micro-batches, one a worker.
cluster::TrainingJob JobOf(const Flags& flags) {
  auto layout = std::make_shared<const wire::Layout>(*wire::Layout::Build(
      ProfileOf(flags).params,
      {.shard_count = flags.shards, .transfer_stages = flags.transfer_stages ? flags.shards : 1}));
  cluster::TrainingJob job = {
      .specs = {.policy = *consistency::ParsePolicy("bsp"),
                .optimizer = *compute::ParseOptimizer("momentum:lr=0.1,mu=0.9")},
      .layout = std::move(layout),
      .seed = 1,
      .batch = flags.workers,
      .micro_batches = flags.workers,
      .total_clocks = flags.steps,
      .workers = flags.workers,
      .train_samples = flags.workers,
      .ops = std::make_shared<const std::vector<worker::OpOutline>>(ProfileOf(flags).Outline())};
  cluster::Complete(&job);
  return job;
}

std::unique_ptr<transport::Transport> MakeTransport(const Flags& flags, Address self,
                                                    const std::string& listen) {
  transport::ZmqOptions options;
  options.listen = listen;
  options.streams = true;
  options.stream_window = !flags.fixed;
  auto transport = transport::MakeNodeTransport(options);
  CHECK(transport.ok()) << transport.status();
  (*transport)->SetSelf(self);
  (*transport)->SetSession(kSession);
  return *std::move(transport);
}

// To send, without or with the order that the messages ask for.
void Flush(const Flags& flags, apps::NodeLoop* loop, wire::Outbox* out) {
  for (Message& message : out->messages) {
    if (!flags.priority) message.priority = 0;
  }
  loop->Flush(out);
}

Message Roster(const Flags& flags, Address to) {
  wire::Roster roster;
  roster.worker_count = flags.workers;
  roster.shards_per_server = flags.shards;
  roster.servers = {{ServerId{0}, flags.endpoint}};
  for (uint32_t w = 0; w < flags.workers; ++w) {
    roster.workers.push_back({.worker = WorkerId{w}, .admitted = kEpoch});
  }
  Message message;
  message.type = MessageType::kRoster;
  message.from = Address::Scheduler();
  message.to = to;
  message.epoch = kEpoch;
  message.body = std::move(roster);
  return message;
}

std::unique_ptr<server::Replica> MakeShard(const Flags& flags, ShardId id) {
  const cluster::TrainingJob job = JobOf(flags);
  return std::make_unique<server::Replica>(
      server::ReplicaOptions(), server::Shard(cluster::ShardOptionsOf(job, id),
                                              server::Store(cluster::StoreOptionsOf(job, id))));
}

// Serves until it is told to stop.
[[noreturn]] void Serve(const Flags& flags) {
  apps::NodeLoop loop(MakeTransport(flags, kServer, flags.endpoint), flags.shards);
  apps::MessageInbox answers(kAnswersMax);
  std::vector<std::unique_ptr<apps::ShardThread>> shards;
  for (uint32_t k = 0; k < flags.shards; ++k) {
    shards.push_back(std::make_unique<apps::ShardThread>(
        MakeShard(flags, ShardId{k}), &answers, [&loop] { loop.Wake(); },
        apps::ShardThreadOptions{.own_thread = flags.shards > 1}));
    CHECK(shards.back()->Put(loop.Now(), Roster(flags, Address::Of(ShardId{k}))));
  }
  std::printf("serving\n");
  std::fflush(stdout);
  wire::Outbox out;
  for (;;) {
    std::optional<Message> message = loop.Next(kSecond);
    if (message.has_value() && message->to.role == wire::Role::kShard) {
      const uint32_t shard = message->to.index;
      CHECK_LT(shard, flags.shards);
      CHECK(shards[shard]->Put(loop.Now(), *std::move(message)));
    }
    while (std::optional<Message> answer = answers.Take(SteadyTime::InfinitePast())) {
      if (answer->to.role == wire::Role::kWorker) out.Send(*std::move(answer));
    }
    Flush(flags, &loop, &out);
  }
}

// A worker's loop, as apps/node/worker_node.cc has it, without a job around it.
class BenchWorker {
 public:
  explicit BenchWorker(const Flags& flags)
      : flags_(flags),
        job_(JobOf(flags)),
        device_(ProfileOf(flags), job_.layout),
        loop_(MakeTransport(flags, Address::Of(WorkerId{flags.rank}), ""), flags.shards),
        engine_(cluster::EngineOptionsOf(job_, WorkerId{flags.rank})) {}

  void Run() {
    const Message roster = Roster(flags_, Address::Of(WorkerId{flags_.rank}));
    loop_.router().ConnectServers(std::get<wire::Roster>(roster.body), 0, 1);
    apps::DeviceThread thread([this](const auto& command, auto* events,
                                     const auto& rest) { device_.Run(command, events, rest); },
                              [this] { loop_.Wake(); });
    Message start;
    start.type = MessageType::kStart;
    start.clock = 0;
    Tell(roster, &thread);
    Tell(start, &thread);
    while (!evaluated_) {
      const std::optional<Message> message = loop_.Next(kSecond);
      if (message.has_value()) Tell(*message, &thread);
      while (std::optional<worker::DeviceEvent> event = thread.Take()) {
        engine_.OnDevice(loop_.Now(), *std::move(event), {&out_, &commands_});
        After(&thread);
      }
    }
  }

  // As JSON, over the steps after the warm-up.
  void Report() const {
    const std::vector<ProfileDevice::Mark>& marks = device_.marks();
    CHECK_GT(static_cast<Clock>(marks.size()), flags_.warm_up);
    const ProfileDevice::Mark& first = marks[static_cast<size_t>(flags_.warm_up) - 1];
    const auto steps = static_cast<double>(static_cast<Clock>(marks.size()) - flags_.warm_up);
    const auto wall = static_cast<double>(marks.back().at - first.at) / kSecond;
    const auto busy = static_cast<double>(marks.back().busy - first.busy) / kSecond;
    std::printf(
        "{\"rank\": %u, \"steps_per_s\": %.5f, \"step_s\": %.5f, \"busy_s\": %.5f, "
        "\"exposed_s\": %.5f, \"pushed_bytes\": %llu, \"pulled_bytes\": %llu, \"sha256\": "
        "\"%s\"}\n",
        flags_.rank, steps / wall, wall / steps, busy / steps, (wall - busy) / steps,
        static_cast<unsigned long long>(engine_.progress().pushed_bytes),
        static_cast<unsigned long long>(engine_.progress().pulled_bytes), device_.sha256().c_str());
  }

 private:
  void Tell(const Message& message, apps::DeviceThread* thread) {
    engine_.OnMessage(loop_.Now(), message, {&out_, &commands_});
    CHECK(!engine_.failure().has_value()) << *engine_.failure();
    After(thread);
  }

  // What is for the scheduler ends the steps, and then the run.
  void After(apps::DeviceThread* thread) {
    bool done = false;
    std::erase_if(out_.messages, [&](const Message& message) {
      done = done || message.type == MessageType::kDone;
      evaluated_ = evaluated_ || message.type == MessageType::kEvaluated;
      return message.to == Address::Scheduler();
    });
    for (worker::DeviceCommand& command : commands_) CHECK(thread->Put(&command));
    commands_.clear();
    Flush(flags_, &loop_, &out_);
    if (!done) return;
    Message evaluate;
    evaluate.type = MessageType::kEvaluate;
    Tell(evaluate, thread);
  }

  const Flags& flags_;
  const cluster::TrainingJob job_;
  ProfileDevice device_;
  apps::NodeLoop loop_;
  worker::Engine engine_;
  wire::Outbox out_;
  std::vector<worker::DeviceCommand> commands_;
  bool evaluated_ = false;
};

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app(
      "One end of a job whose compute is a profile (bench/scripts/schedule_on_shaped_link.py)");
  CLI::App* serve = app.add_subcommand("server", "Serves until it is killed");
  CLI::App* work = app.add_subcommand("worker", "Makes the steps; prints what they took as JSON");
  app.require_subcommand(1);
  for (CLI::App* command : {serve, work}) {
    command->add_option("--endpoint", flags.endpoint, "Of the server")->required();
    command->add_option("--workers", flags.workers, "Of the job")->check(CLI::Range(1, 64));
    command->add_option("--steps", flags.steps, "In all")->check(CLI::Range(2, 100'000));
    command->add_option("--scale", flags.scale, "Divides VGG-16's parameters")
        ->check(CLI::Range(1, 1'000));
    command->add_option("--shards", flags.shards, "Of the server")->check(CLI::Range(1, 64));
    command->add_flag("--stages", flags.transfer_stages, "Shards by layers, asked ahead");
    command->add_flag("--priority", flags.priority, "Send earlier layers first");
    command->add_flag("--fixed", flags.fixed, "Without windows that adapt");
  }
  work->add_option("--rank", flags.rank, "Of this worker")->check(CLI::Range(0, 63));
  work->add_option("--compute_s", flags.compute_s, "Of a step")->check(CLI::Range(0.0, 60.0));
  work->add_option("--warm_up", flags.warm_up, "Steps not measured")->check(CLI::Range(1, 1'000));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << "soapstone-schedule-bench: " << error.what() << " (--help lists the flags)\n";
    return kExitConfig;
  }
  if (serve->parsed()) Serve(flags);
  BenchWorker worker(flags);
  worker.Run();
  worker.Report();
  return kExitOk;
}

}  // namespace
}  // namespace soapstone::bench

// NOLINTNEXTLINE(bugprone-exception-escape): CLI11's errors are caught, and others end the program.
int main(int argc, char** argv) {
  google::InitGoogleLogging(argv[0]);
  FLAGS_logtostderr = true;
  return soapstone::bench::Main(argc, argv);
}
