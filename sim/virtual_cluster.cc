#include "sim/virtual_cluster.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "sim/actors.h"
#include "sim/checkers.h"
#include "sim/event_queue.h"
#include "sim/network_model.h"
#include "sim/straggler.h"
#include "wire/outbox.h"

namespace soapstone::sim {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;

constexpr Clock kUnlimitedClocks = 1'000'000'000;
constexpr uint64_t kSpansMax = 20'000'000;
constexpr Clock kReportEvery = 5;  // clocks of a worker, where the scheduler measures speeds
constexpr uint32_t kLeavesEachToRebalance = 16;

struct DeviceDone {
  uint32_t worker = 0;
  worker::DeviceEvent event;
};

// One run.
class Cluster {
 public:
  Cluster(const VirtualOptions& options, ActorFactory factory, StragglerModel stragglers)
      : options_(options),
        factory_(std::move(factory)),
        stragglers_(std::move(stragglers)),
        network_(options.latency_us, options.bandwidth_mbps),
        coordinator_(factory_.MakeCoordinator(/*evaluate=*/false)),
        checkers_({.policy = factory_.shape().policy,
                   .shards = factory_.shards(),
                   .root_shards = factory_.shape().shards,
                   .workers = options.workers,
                   .leaf_count = factory_.shape().leaf_count,
                   .rounds = factory_.rounds()}) {
    if (options.duration > 0) {
      horizon_ = static_cast<Nanos>(options.duration * static_cast<double>(options.iteration_ns));
    }
    for (uint32_t k = 0; k < factory_.shards(); ++k) {
      shards_.push_back(factory_.MakeShard(ShardId{k}));
    }
    for (uint32_t w = 0; w < options.workers; ++w) {
      workers_.push_back({.engine = factory_.MakeEngine(WorkerId{w})});
      if (factory_.shape().policy.decentralised()) {
        workers_.back().peer = factory_.MakePeer(WorkerId{w});
      }
    }
  }

  VirtualResult Run();

 private:
  using Event = std::variant<Message, DeviceDone>;

  struct Worker {
    worker::Engine engine;
    std::optional<server::Peer> peer;
    Nanos device_free = 0;
    Nanos busy = 0;
    Nanos done_at = -1;
    Clock clock = 0;
    Clock reported = 0;
    uint64_t skipped = 0;
    // Computed since the device's last answer.
    uint64_t samples = 0;
    Nanos compute = 0;
  };

  void Register();
  bool Over() const { return coordinator_.ended().has_value() || failure_.has_value(); }
  void Step();
  void Settle();
  void Deliver(Message message);
  void DeliverToWorker(uint32_t index, const Message& message);
  void AfterWorker(uint32_t index);
  void SendAll();
  void RunCommands(uint32_t index);
  worker::DeviceEvent AnswerOf(uint32_t index, const worker::DeviceCommand& command);
  Nanos CostOf(uint32_t index, const worker::DeviceCommand& command);
  void SendHeartbeat(uint32_t index);
  void ReportProgress();
  VirtualResult Result(Nanos end) const;

  const VirtualOptions& options_;
  ActorFactory factory_;
  StragglerModel stragglers_;
  NetworkModel network_;
  scheduler::Coordinator coordinator_;
  Checkers checkers_;
  std::vector<server::Shard> shards_;
  std::vector<Worker> workers_;
  EventQueue<Event> queue_;
  wire::Outbox outbox_;                          // emptied after each call of an actor
  std::vector<worker::DeviceCommand> commands_;  // likewise
  std::vector<worker::DeviceEvent> answers_;     // of the training's device, to one command
  TrainingMoment trained_;                       // without now and bytes
  Nanos horizon_ = std::numeric_limits<Nanos>::max();
  uint64_t iterations_ = 0;
  double reported_ = 0;
  uint64_t events_ = 0;
  uint64_t messages_ = 0;
  uint64_t bytes_ = 0;
  std::vector<Span> spans_;
  std::vector<std::string> news_;
  std::optional<std::string> failure_;
};

// Registration costs no time: all Hellos are there at time 0. Heartbeats are off, unless they carry
// what the scheduler measures speeds by.
void Cluster::Register() {
  coordinator_.Start(0, &outbox_);
  const uint32_t shards = factory_.shards();
  for (uint32_t k = 0; k < shards; ++k) {
    outbox_.Send(factory_.MakeHello(Address::Of(ServerId{k}), k, k + 1));
  }
  for (uint32_t w = 0; w < options_.workers; ++w) {
    outbox_.Send(factory_.MakeHello(Address::Of(WorkerId{w}), w, shards + w + 1));
  }
  SendAll();
}

VirtualResult Cluster::Run() {
  const double began = options_.wall_seconds ? options_.wall_seconds() : 0;
  Register();
  Nanos end = 0;
  while (!queue_.empty() && !Over()) {
    if (options_.training != nullptr && queue_.next_at() > queue_.now()) Settle();
    if (queue_.next_at() > horizon_) break;
    Step();
    if (options_.progress != nullptr && events_ % 1024 == 0) ReportProgress();
    end = queue_.now();
  }
  if (!queue_.empty() && !Over()) end = horizon_;
  if (options_.training != nullptr) {
    // What the workers had sent when the last of them was done is still to be applied.
    while (!queue_.empty() && coordinator_.ended().has_value() && !failure_.has_value()) Step();
    Settle();
  }
  VirtualResult result = Result(end);
  if (options_.wall_seconds) result.wall_seconds = options_.wall_seconds() - began;
  return result;
}

void Cluster::Step() {
  Event event = queue_.Pop();
  ++events_;
  if (auto* message = std::get_if<Message>(&event)) return Deliver(std::move(*message));
  DeviceDone& done = std::get<DeviceDone>(event);
  trained_.samples += done.event.trained_samples;
  if (done.event.trained_samples > 0) trained_.loss_sum += done.event.loss_sum;
  workers_[done.worker].engine.OnDevice(queue_.now(), std::move(done.event),
                                        {&outbox_, &commands_});
  AfterWorker(done.worker);
}

void Cluster::Settle() {
  TrainingMoment moment = trained_;
  moment.now = queue_.now();
  moment.bytes = bytes_;
  options_.training->settled(moment);
}

void Cluster::Deliver(Message message) {
  const uint32_t index = message.to.index;
  switch (message.to.role) {
    case Role::kScheduler:
      coordinator_.OnMessage(queue_.now(), message, &outbox_);
      for (std::string& line : coordinator_.TakeNews()) {
        if (absl::StartsWith(line, "re-balanced")) news_.push_back(std::move(line));
      }
      return SendAll();
    case Role::kShard:
      checkers_.BeforeShard(shards_[index], message);
      shards_[index].OnMessage(queue_.now(), std::move(message), &outbox_);
      checkers_.AfterShard(shards_[index], outbox_.messages);
      return SendAll();
    case Role::kWorker:
      if (workers_[index].peer.has_value() && server::Peer::Wants(message)) {
        workers_[index].peer->OnMessage(queue_.now(), message, &outbox_);
        SendAll();
        if (message.type != MessageType::kRoster) return;
      }
      return DeliverToWorker(index, message);
    case Role::kPeer:
      workers_[index].peer->OnMessage(queue_.now(), std::move(message), &outbox_);
      return SendAll();
    default:
      return;  // servers' own messages: welcomes, rosters
  }
}

void Cluster::DeliverToWorker(uint32_t index, const Message& message) {
  if (message.type == MessageType::kStart) checkers_.OnWorkerStart(WorkerId{index}, message.clock);
  workers_[index].engine.OnMessage(queue_.now(), message, {&outbox_, &commands_});
  AfterWorker(index);
}

void Cluster::AfterWorker(uint32_t index) {
  Worker& worker = workers_[index];
  checkers_.AfterWorker(WorkerId{index}, outbox_.messages);
  // Steps that were skipped are not made.
  iterations_ += static_cast<uint64_t>(worker.engine.clock() - worker.clock) + worker.skipped -
                 worker.engine.progress().skipped;
  worker.skipped = worker.engine.progress().skipped;
  worker.clock = worker.engine.clock();
  if (worker.engine.done() && worker.done_at < 0) worker.done_at = queue_.now();
  if (worker.engine.failure().has_value()) failure_ = worker.engine.failure();
  if (options_.rebalance && worker.clock >= worker.reported + kReportEvery) SendHeartbeat(index);
  SendAll();
  RunCommands(index);
}

void Cluster::SendHeartbeat(uint32_t index) {
  Worker& worker = workers_[index];
  worker.reported = worker.clock;
  Message message;
  message.type = MessageType::kHeartbeat;
  message.from = Address::Of(WorkerId{index});
  message.to = Address::Scheduler();
  message.body = worker.engine.progress();
  outbox_.Send(std::move(message));
}

void Cluster::SendAll() {
  outbox_.timers.clear();  // no silence, no deadlines
  for (Message& message : outbox_.messages) {
    if (server::Peer::IsWithinNode(message)) {
      queue_.Push(queue_.now(), std::move(message));
      continue;
    }
    const uint64_t bytes = NetworkModel::BytesOf(message, factory_.layout());
    const Nanos at = network_.Arrival(queue_.now(), message.from, message.to, bytes);
    ++messages_;
    bytes_ += bytes;
    queue_.Push(at, std::move(message));
  }
  outbox_.messages.clear();
}

// The device is a stream: a command begins when the one before it has ended.
void Cluster::RunCommands(uint32_t index) {
  Worker& worker = workers_[index];
  for (const worker::DeviceCommand& command : commands_) {
    const Nanos begin = std::max(worker.device_free, queue_.now());
    const Nanos cost = CostOf(index, command);
    worker.device_free = begin + cost;
    if (cost > 0) {
      const Nanos end = std::min(worker.device_free, horizon_);
      worker.busy += end - begin;
      worker.compute += cost;
      worker.samples += command.what.part.size();
      if (options_.timeline && spans_.size() < kSpansMax) {
        spans_.push_back({index, command.clock, begin, end});
      }
    }
    if (options_.training != nullptr) {
      options_.training->device(WorkerId{index}, command, &answers_);
    }
    if (command.wants_event) {
      queue_.Push(worker.device_free, DeviceDone{index, AnswerOf(index, command)});
    }
  }
  commands_.clear();
}

// The training's, or one that stands for a gradient. The time is the cost model's either way.
worker::DeviceEvent Cluster::AnswerOf(uint32_t index, const worker::DeviceCommand& command) {
  Worker& worker = workers_[index];
  worker::DeviceEvent event = {.run = command.run, .instruction = command.instruction};
  if (options_.training != nullptr) {
    CHECK_EQ(answers_.size(), 1u) << "a device answers one command by one event";
    event = std::move(answers_.front());
    answers_.clear();
  } else {
    if (command.what.op == worker::Op::kCollect) event.samples = command.what.node.size();
    event.trained_samples = std::exchange(worker.samples, 0);
  }
  event.compute_ns = std::exchange(worker.compute, 0);
  return event;
}

// An iteration's time is charged to its first operator, shared out over its leaves.
Nanos Cluster::CostOf(uint32_t index, const worker::DeviceCommand& command) {
  if (command.what.op != worker::Op::kForward || command.what.index != 0) return 0;
  const double share =
      static_cast<double>(factory_.shape().leaf_count) / static_cast<double>(options_.workers);
  const double iterations = command.what.part.size() / share;
  return std::llround(static_cast<double>(options_.iteration_ns) * iterations *
                      stragglers_.Factor(WorkerId{index}, command.clock));
}

void Cluster::ReportProgress() {
  double fraction = static_cast<double>(queue_.now()) / static_cast<double>(horizon_);
  if (options_.clocks > 0) {
    const double all = static_cast<double>(options_.clocks) * options_.workers;
    fraction = std::max(fraction, static_cast<double>(iterations_) / all);
  }
  if (fraction < reported_ + 0.01) return;
  reported_ = fraction;
  options_.progress(fraction);
}

VirtualResult Cluster::Result(Nanos end) const {
  VirtualResult result;
  result.policy = factory_.shape().policy.spec;
  result.guarantee = factory_.shape().policy.guarantee.ToString();
  result.stragglers = stragglers_.ToString();
  result.duration = static_cast<double>(end) / static_cast<double>(options_.iteration_ns);
  double busy = 0, total = 0;
  for (const Worker& worker : workers_) {
    result.clocks.push_back(worker.clock);
    result.skipped += worker.skipped;
    busy += static_cast<double>(worker.busy);
    total += static_cast<double>(worker.done_at >= 0 ? worker.done_at : end);
  }
  const double unit = static_cast<double>(options_.iteration_ns);
  result.computing = busy / unit;
  result.waiting = std::max(0.0, total - busy) / unit;
  if (end > 0) {
    result.rate = static_cast<double>(iterations_) / (options_.workers * result.duration);
    result.blocked_fraction = std::max(0.0, 1 - busy / total);
  }
  result.read_lags = checkers_.read_lags();
  result.clock_gap_max = checkers_.clock_gap_max();
  result.violations = checkers_.violations();
  result.violation = checkers_.violation();
  const auto fail = [&](std::string what) {
    ++result.violations;
    if (!result.violation.has_value()) result.violation = std::move(what);
  };
  if (failure_.has_value()) fail(absl::StrCat("a worker failed: ", *failure_));
  if (queue_.empty() && !coordinator_.ended().has_value()) {
    fail("S5: deadlock: nothing can happen, and the job is not over");
  }
  result.messages = messages_;
  result.bytes = bytes_;
  result.events = events_;
  result.spans = spans_;
  result.news = news_;
  return result;
}

absl::Status CheckOptions(const VirtualOptions& options) {
  const auto error = [](const char* text) { return absl::InvalidArgumentError(text); };
  if (options.clocks < 0 || options.duration < 0 || !std::isfinite(options.duration)) {
    return error("clocks and duration are not negative");
  }
  if (options.clocks == 0 && options.duration == 0) {
    return error("the run has no end: give clocks or a duration");
  }
  if (options.iteration_ns < 1 || options.iteration_ns > 3600 * kSecond) {
    return error("the iteration time is outside [1 ns, 1 h]");
  }
  if (options.rebalance && options.leaf_count > 0 && options.leaf_count <= options.workers) {
    return error("re-balancing needs more micro-batches than workers");
  }
  if (options.duration * static_cast<double>(options.iteration_ns) > 9e18) {
    return error("the duration is beyond the range of nanoseconds");
  }
  if (!(options.latency_us >= 0 && options.latency_us <= 1e9)) {
    return error("the latency is outside [0, 1e9] us");
  }
  if (!(options.bandwidth_mbps >= 0 && options.bandwidth_mbps <= 1e9)) {
    return error("the bandwidth is outside [0, 1e9] Mbit/s; 0: no limit");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<VirtualResult> RunVirtual(const VirtualOptions& options) {
  SOAP_RETURN_IF_ERROR(CheckOptions(options));
  SOAP_ASSIGN_OR_RETURN(StragglerModel stragglers,
                        StragglerModel::Parse(options.stragglers, options.seed));
  JobShape shape = {.workers = options.workers,
                    .shards = options.shards,
                    .buckets_per_shard = options.buckets_per_shard,
                    .clocks = options.clocks > 0 ? options.clocks : kUnlimitedClocks,
                    .leaf_count = options.leaf_count};
  const uint64_t buckets = std::max<uint64_t>(1, uint64_t{shape.shards} * shape.buckets_per_shard);
  shape.bucket_elements = std::max<uint64_t>(1024, options.model_elements / buckets);
  SOAP_ASSIGN_OR_RETURN(shape.policy, consistency::ParsePolicy(options.policy));
  SOAP_RETURN_IF_ERROR(consistency::CheckWorkers(shape.policy, options.workers));
  if (options.rebalance) {
    if (!shape.policy.weighs_samples()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "re-balancing goes with policies that take every gradient, not ", options.policy));
    }
    if (shape.leaf_count == 0) shape.leaf_count = kLeavesEachToRebalance * shape.workers;
    shape.rebalance.leaf_count = shape.leaf_count;
  }
  SOAP_ASSIGN_OR_RETURN(ActorFactory factory,
                        ActorFactory::Make(std::move(shape), options.training));
  return Cluster(options, std::move(factory), std::move(stragglers)).Run();
}

}  // namespace soapstone::sim
