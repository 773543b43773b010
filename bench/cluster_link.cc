#include "bench/cluster_link.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "apps/loop/cpu_placement.h"
#include "apps/loop/node_loop.h"
#include "apps/loop/shard_thread.h"
#include "base/memory/past_cache.h"
#include "base/steady_clock.h"
#include "bench/zipf.h"
#include "cluster/actor_options.h"
#include "compute/optimizer.h"
#include "consistency/catalogue.h"
#include "glog/logging.h"
#include "security/process_keys.h"
#include "server/shard/shard.h"
#include "transport/node/node_transport.h"
#include "wire/header_fields.h"
#include "wire/layout.h"

namespace soapstone::bench {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;

constexpr uint64_t kSession = 7;
constexpr Epoch kEpoch = 1;
constexpr uint64_t kQueuedBytesMax = uint64_t{64} << 20;  // on their way, each side of a link
constexpr int kWarmUps = 3;
constexpr int kBatches = 256;
constexpr size_t kAnswersMax = 65'536;
constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr absl::Duration kLookAgain = absl::Microseconds(50);
constexpr Address kServer = {wire::Role::kServer, 0};
constexpr Address kShard = {wire::Role::kShard, 0};
constexpr Address kWorker = {wire::Role::kWorker, 0};

// Small values travel alone; large ones in slices, as in a job.
uint64_t BucketBytesOf(const ClusterLoad& load) {
  return std::min(load.value_bytes, wire::LayoutOptions{}.bucket_bytes);
}

std::shared_ptr<const wire::Layout> LayoutOf(const ClusterLoad& load) {
  if (load.table_rows > 0) {
    return std::make_shared<const wire::Layout>(
        *wire::Layout::Build({}, {.tables = {{.name = "rows", .dim = load.dim}}}));
  }
  std::vector<ParamSpec> params;
  for (uint32_t b = 0; b < load.buckets; ++b) {
    params.push_back({.name = absl::StrCat("p", b),
                      .shape = {static_cast<int64_t>(load.value_bytes / sizeof(float))}});
  }
  return std::make_shared<const wire::Layout>(
      *wire::Layout::Build(std::move(params), {.bucket_bytes = BucketBytesOf(load)}));
}

bool IsSharedMemory(ClusterLink link) {
  return link == ClusterLink::kSharedMemory || link == ClusterLink::kProvedSharedMemory;
}
bool IsStream(ClusterLink link) {
  return link == ClusterLink::kTcp || link == ClusterLink::kSealedTcp;
}

// Null where the link has no keys.
using Process = std::shared_ptr<const security::ProcessKeys>;
Process ProcessOf(const ClusterLoad& load, security::KeyRole role) {
  const bool has_keys =
      load.link == ClusterLink::kProvedSharedMemory || load.link == ClusterLink::kSealedTcp;
  if (!has_keys) return nullptr;
  auto keys = security::ReadJobKeys(load.key, role);
  CHECK(keys.ok()) << keys.status();
  return security::MakeProcessKeys(std::make_shared<const security::JobKeys>(*std::move(keys)));
}

// Known to both before they begin, as by a roster.
struct Processes {
  Process server, worker;
};

void SetHolders(const Processes& processes, transport::Transport* transport) {
  if (processes.server == nullptr) return;
  transport->SetHolder(kServer, security::BytesOf(processes.server->own.open));
  transport->SetHolder(kWorker, security::BytesOf(processes.worker->own.open));
}

transport::ZmqOptions OptionsOf(const ClusterLoad& load, Process process) {
  return {.shared_memory = IsSharedMemory(load.link),
          .streams = IsStream(load.link),
          .queue_messages_max = QueuedMessagesMax(load),
          .queue_bytes_max = kQueuedBytesMax,
          .keys = std::move(process)};
}

Clock ClocksOf(const ClusterLoad& load) {
  return static_cast<Clock>(load.steps) + 2 * kWarmUps + 1;
}

void CreateRows(const ClusterLoad& load, server::Store* store) {
  const std::vector<float> rows(size_t{load.batch_rows} * load.dim, 1e-3f);
  for (uint64_t key = 0; key < load.table_rows;) {
    std::vector<uint64_t> keys;
    while (keys.size() < load.batch_rows && key < load.table_rows) keys.push_back(key++);
    const auto values = absl::MakeConstSpan(rows).first(keys.size() * load.dim);
    store->Apply(BucketId{0}, 0,
                 {{.samples = 1,
                   .batch_samples = 1,
                   .payload = {Buffer::CopyOf<uint64_t>(keys), Buffer::CopyOf<float>(values)}}},
                 1, 1);
  }
}

std::unique_ptr<server::Replica> MakeShard(const ClusterLoad& load) {
  cluster::TrainingJob job = {.specs = {.policy = *consistency::ParsePolicy("async"),
                                        .optimizer = *compute::ParseOptimizer("sgd:lr=1e-6")},
                              .layout = LayoutOf(load),
                              .micro_batches = 1,
                              .total_clocks = ClocksOf(load)};
  cluster::Complete(&job);
  server::Store values(cluster::StoreOptionsOf(job, ShardId{0}));
  if (load.table_rows > 0) CreateRows(load, &values);
  return std::make_unique<server::Replica>(
      server::ReplicaOptions(),
      server::Shard(cluster::ShardOptionsOf(job, ShardId{0}), std::move(values)));
}

Message Roster() {
  Message message;
  message.type = MessageType::kRoster;
  message.from = Address::Scheduler();
  message.to = kShard;
  message.epoch = kEpoch;
  wire::Roster roster;
  roster.worker_count = 1;
  roster.workers.push_back({.worker = WorkerId{0}, .admitted = kEpoch});
  message.body = std::move(roster);
  return message;
}

// A server's loop, as apps/node/server_node.cc has it, without a job around it.
void Serve(const ClusterLoad& load, const Processes& processes,
           const std::function<void(const std::string&)>& ready) {
  transport::ZmqOptions options = OptionsOf(load, processes.server);
  options.listen = load.link == ClusterLink::kIpc
                       ? absl::StrCat("ipc://@soapstone-bench-", getpid())
                       : "tcp://127.0.0.1:0";
  auto transport = transport::MakeNodeTransport(options);
  CHECK(transport.ok()) << transport.status();
  (*transport)->SetSelf(kServer);
  (*transport)->SetSession(kSession);
  SetHolders(processes, transport->get());
  const std::string endpoint = (*transport)->endpoint();
  apps::NodeLoop loop(*std::move(transport), 1);
  apps::MessageInbox answers(kAnswersMax);
  apps::ShardThread shard(
      MakeShard(load), &answers, [&loop] { loop.Wake(); },
      apps::ShardThreadOptions{.own_thread = false});
  CHECK(shard.Put(loop.Now(), Roster()));
  ready(endpoint);
  wire::Outbox out;
  for (;;) {
    std::optional<Message> message = loop.Next(kSecond);
    if (message.has_value()) CHECK(shard.Put(loop.Now(), *std::move(message)));
    while (std::optional<Message> answer = answers.Take(SteadyTime::InfinitePast())) {
      if (answer->to.role == wire::Role::kWorker) out.Send(*std::move(answer));
    }
    loop.Flush(&out);
  }
}

class Worker {
 public:
  Worker(const ClusterLoad& load, const Processes& processes, const std::string& endpoint)
      : load_(load), layout_(LayoutOf(load)) {
    auto transport = transport::MakeNodeTransport(OptionsOf(load, processes.worker));
    CHECK(transport.ok()) << transport.status();
    transport_ = *std::move(transport);
    transport_->SetSelf(kWorker);
    transport_->SetSession(kSession);
    SetHolders(processes, transport_.get());
    CHECK(transport_->Connect(kServer, endpoint).ok());
    if (load.table_rows > 0) {
      DrawRows();
      return;
    }
    const BufferPool::Block block = pool_.Take(load.value_bytes * load.buckets);
    std::fill(block.floats().begin(), block.floats().end(), 1.0f);
    model_.resize(load.value_bytes * load.buckets / sizeof(float));
    size_t offset = 0;
    for (const wire::Bucket& bucket : layout_->buckets(ShardId{0})) {
      Buffers& gradient = gradients_.emplace_back();
      for (const wire::Slice& slice : bucket.slices) {
        const size_t bytes = slice.elements() * sizeof(float);
        gradient.push_back(block.View(offset, bytes));
        offset += bytes;
      }
    }
  }

  // Steps take the batches in turn: more of them than caches hold.
  void DrawRows() {
    Zipf zipf(load_.table_rows, load_.exponent, 1);
    for (int i = 0; i < kBatches; ++i) {
      const std::vector<uint64_t> keys = zipf.Batch(load_.batch_rows);
      const BufferPool::Block of_keys = pool_.Take(keys.size() * sizeof(uint64_t));
      std::memcpy(of_keys.data, keys.data(), of_keys.size);
      const BufferPool::Block rows = pool_.Take(keys.size() * load_.dim * sizeof(float));
      std::fill(rows.floats().begin(), rows.floats().end(), 1e-3f);
      batches_.push_back({of_keys.View(), rows.View()});
    }
    gradients_.resize(1);
  }

  // So that the connection stands and every page has been touched, those of the second block of
  // values too, which an update goes to while the first is being read.
  void WarmUp() {
    for (int i = 0; i < kWarmUps; ++i) {
      if (load_.push) Push();
      Pull();
      if (load_.push) Push();
      Await();
    }
  }

  Sample Run(pid_t server) {
    const CpuWatch cpu(server);
    RoundTrips trips(server);
    const Nanos began = Now();
    uint64_t pulls = 0;
    for (uint64_t step = 0; step < load_.steps; ++step) {
      if (load_.round_trips) trips.Begin();
      if (load_.push) Push();
      if (load_.pull) {
        Pull();
        ++pulls;
        // Two at a time, so that one is on its way while the other is copied.
        if (load_.round_trips || pulls > 1) Await();
      }
      if (load_.round_trips) trips.End();
    }
    // The last answer says that all is applied. After pushes alone nobody wants its values.
    if (load_.push && !load_.pull) Pull();
    if (!load_.round_trips) Await(load_.pull);
    Sample sample = trips.Result(load_.value_bytes);
    sample.seconds = static_cast<double>(Now() - began) / kSecond;
    sample.cpu_seconds = cpu.Seconds();
    sample.messages = load_.steps * (load_.push ? load_.buckets : 1);
    if (load_.table_rows > 0) sample.messages = load_.steps * load_.batch_rows;
    sample.bytes = load_.steps * load_.buckets * load_.value_bytes;
    return sample;
  }

 private:
  Message ToShard(MessageType type, Clock clock) const {
    Message message;
    message.type = type;
    message.from = kWorker;
    message.to = kShard;
    message.epoch = kEpoch;
    message.worker = WorkerId{0};
    message.clock = clock;
    message.body = wire::BodyFrom(type, {});
    return message;
  }

  void Push() {
    if (!batches_.empty()) gradients_[0] = batches_[static_cast<size_t>(clock_) % batches_.size()];
    for (uint32_t b = 0; b < gradients_.size(); ++b) {
      Message push = ToShard(MessageType::kPush, clock_);
      push.body = wire::Push{.bucket = BucketId{b},
                             .micro_batches = {0, 1},
                             .micro_batch_count = 1,
                             .samples = 1,
                             .batch_samples = 1};
      push.payload = gradients_[b];
      Send(push);
    }
    Message clock = ToShard(MessageType::kClock, ++clock_);
    clock.body = wire::Completion{.pushes = static_cast<uint32_t>(gradients_.size())};
    Send(clock);
  }

  void Pull() { Send(ToShard(MessageType::kPull, clock_)); }

  void Send(const Message& message) {
    for (;;) {
      const absl::Status sent = transport_->Send(kServer, message);
      if (sent.ok()) return;
      CHECK(absl::IsResourceExhausted(sent)) << sent;
      absl::SleepFor(kLookAgain);
    }
  }

  // Takes one reply, into the worker's own memory where it `copies`.
  void Await(bool copies = true) {
    const SteadyTime deadline = SteadyNow() + kPatience;
    for (;;) {
      const std::optional<Message> reply = transport_->Receive(deadline);
      CHECK(reply.has_value() || SteadyNow() < deadline) << "no reply";
      if (!reply.has_value()) continue;
      CHECK(reply->type == MessageType::kPullReply) << wire::ToString(*reply);
      if (!copies) return;
      size_t offset = 0;
      for (const Buffer& frame : reply->payload) {
        const absl::Span<const float> values = frame.floats();
        CopyPart(model_.data() + offset, values.data(), values.size(),
                 model_.size() * sizeof(float));
        offset += values.size();
      }
      return;
    }
  }

  const ClusterLoad& load_;
  std::shared_ptr<const wire::Layout> layout_;
  std::unique_ptr<transport::Transport> transport_;
  BufferPool pool_;
  std::vector<Buffers> gradients_;  // by bucket
  std::vector<Buffers> batches_;    // of rows
  std::vector<float> model_;
  Clock clock_ = 0;
};

}  // namespace

int QueuedMessagesMax(const ClusterLoad& load) {
  return static_cast<int>(std::clamp<uint64_t>(kQueuedBytesMax / BucketBytesOf(load), 2, 10'000));
}

Sample RunCluster(const ClusterLoad& load) {
  const auto place = [&](const char* cpu) {
    if (load.pinned) CHECK(apps::Place({.cpus = cpu}).ok()) << "no processor " << cpu;
  };
  const Processes processes = {ProcessOf(load, security::KeyRole::kServer),
                               ProcessOf(load, security::KeyRole::kWorker)};
  return Measure(
      "a server and a worker",
      [&](const auto& ready) {
        place("1");
        Serve(load, processes, ready);
      },
      [&](const std::string& endpoint, pid_t server) {
        place("0");
        Worker worker(load, processes, endpoint);
        worker.WarmUp();
        return worker.Run(server);
      });
}

}  // namespace soapstone::bench
