#include "sim/virtual_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "cluster/actor_options.h"
#include "cluster/worker_recipients.h"
#include "glog/logging.h"

namespace soapstone::sim {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;

constexpr Clock kReportEvery = 5;  // clocks of a worker, where the scheduler measures speeds

constexpr uint32_t kUnranked = 1u << 31;  // this plus its rank: the address of who asks for it

CheckerOptions CheckerOptionsOf(const ActorFactory& factory) {
  CheckerOptions options = {.policy = factory.policy(),
                            .shards = factory.shards(),
                            .root_shards = factory.layout().shard_count(),
                            .workers = factory.teams().teams,
                            .micro_batch_count = factory.job().micro_batches,
                            .rounds = factory.rounds(),
                            .team = factory.teams()};
  if (factory.job().team == nullptr) return options;
  const cluster::TeamJob& team = *factory.job().team;
  for (uint32_t k = 0; k < options.shards; ++k) {
    options.holders.push_back(static_cast<uint32_t>(cluster::HoldersOf(team, ShardId{k}).size()));
    options.own_lags.push_back(cluster::OwnLagOf(team, ShardId{k}));
  }
  return options;
}

}  // namespace

VirtualRun::VirtualRun(const VirtualOptions& options, ActorFactory factory,
                       StragglerModel stragglers)
    : options_(options),
      factory_(std::move(factory)),
      stragglers_(std::move(stragglers)),
      network_(options.latency_us, options.bandwidth_mbps),
      whole_pushes_(factory_.teams(), CheckerOptionsOf(factory_).holders),
      coordinator_(factory_.MakeCoordinator(/*evaluate=*/false)),
      checkers_(CheckerOptionsOf(factory_)) {
  if (options.duration > 0) {
    horizon_ = static_cast<Nanos>(options.duration * static_cast<double>(options.iteration_ns));
  }
  for (uint32_t k = 0; k < factory_.shards(); ++k) {
    shards_.push_back(factory_.MakeShard(ShardId{k}));
  }
  if (const cluster::TeamJob* team = factory_.job().team.get()) {
    if (options.seat_costs == nullptr) {
      even_costs_ = EvenSeatCosts(factory_.job(), options.iteration_ns);
    }
    if (options.machine != nullptr) {
      machine_.emplace(options.machine,
                       MachineNetwork::Shards{.sets = team->sets(), .owned = team->plan.owned});
      shard_queues_.resize(factory_.shards());
      server_free_.resize(options.machine->servers().size());
    }
  }
  workers_.reserve(factory_.job().workers);  // a peer that is copied is another one
  for (uint32_t w = 0; w < factory_.job().workers; ++w) {
    workers_.push_back({.engine = factory_.MakeEngine(WorkerId{w})});
    if (factory_.job().team != nullptr) {
      workers_.back().seat = cluster::EngineOptionsOf(factory_.job(), WorkerId{w});
    }
    if (cluster::HasPeer(factory_.job(), WorkerId{w})) {
      workers_.back().peer = factory_.MakePeer(WorkerId{w});
    }
  }
}

// Registration costs no time: all Hellos are there at time 0. Heartbeats are off, unless they carry
// what the scheduler measures speeds by.
void VirtualRun::Register() {
  coordinator_.Start(0, &outbox_);
  const uint32_t shards = factory_.shards();
  for (uint32_t k = 0; k < shards; ++k) {
    outbox_.Send(factory_.MakeHello(Address::Of(ServerId{k}), k, k + 1));
  }
  for (uint32_t w = 0; w < factory_.job().workers; ++w) {
    outbox_.Send(factory_.MakeHello(Address::Of(WorkerId{w}), w, shards + w + 1));
  }
  SendAll();
}

VirtualResult VirtualRun::Run() {
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
    while (!queue_.empty() && EndedWell() && !failure_.has_value()) Step();
    Settle();
  }
  VirtualResult result = Result(end);
  if (options_.wall_seconds) result.wall_seconds = options_.wall_seconds() - began;
  return result;
}

bool VirtualRun::EndedWell() const {
  return coordinator_.ended().has_value() && coordinator_.ended()->code == kExitOk;
}

void VirtualRun::Step() {
  Event event = queue_.Pop();
  ++events_;
  if (auto* delivery = std::get_if<Delivery>(&event)) {
    if (Reaches(*delivery)) Deliver(std::move(delivery->message));
    return;
  }
  if (const auto* lost = std::get_if<CountedOut>(&event)) {
    coordinator_.OnLost(queue_.now(), Address::Of(WorkerId{lost->worker}), kLastEpoch, &outbox_);
    return SendAll();
  }
  if (const auto* successor = std::get_if<Successor>(&event)) {
    const uint32_t w = successor->worker;
    const Address from = {Role::kWorker, kUnranked + w};
    outbox_.Send(factory_.MakeHello(from, w, kUnranked * uint64_t{workers_[w].life} + w));
    return SendAll();
  }
  if (const auto* turn = std::get_if<DeviceTurn>(&event)) return EndTurn(turn->worker);
  if (const auto* applied = std::get_if<Applied>(&event)) return EndUpdate(applied->shard);
  DeviceDone& done = std::get<DeviceDone>(event);
  if (done.life == workers_[done.worker].life) TakeAnswer(done.worker, std::move(done.event));
}

void VirtualRun::TakeAnswer(uint32_t index, worker::DeviceEvent answer) {
  trained_.samples += answer.trained_samples;
  if (answer.trained_samples > 0) trained_.loss_sum += answer.loss_sum;
  workers_[index].engine.OnDevice(queue_.now(), std::move(answer), {&outbox_, &commands_});
  AfterWorker(index);
}

void VirtualRun::Settle() {
  TrainingMoment moment = trained_;
  moment.now = queue_.now();
  moment.bytes = bytes_;
  options_.training->settled(moment);
}

std::optional<uint32_t> VirtualRun::WorkerAt(Address to) {
  if (to.role != Role::kWorker && to.role != Role::kPeer) return std::nullopt;
  return to.index & ~kUnranked;
}

bool VirtualRun::Reaches(const Delivery& delivery) const {
  const std::optional<uint32_t> worker = WorkerAt(delivery.message.to);
  return !worker.has_value() || delivery.life == workers_[*worker].life;
}

// To a worker that is down nothing is sent: its connections are closed.
void VirtualRun::Post(Nanos at, Message message) {
  uint32_t life = 0;
  if (const std::optional<uint32_t> index = WorkerAt(message.to)) {
    Worker& worker = workers_[*index];
    // From here on the successor is known by its rank.
    if (message.type == MessageType::kWelcome) worker.up = true;
    if (!worker.up) return;
    life = worker.life;
  }
  queue_.Push(at, Delivery{std::move(message), life});
}

// It ends without a word. What it had sent arrives; what was on its way to it does not.
void VirtualRun::Fail(uint32_t index) {
  Worker& worker = workers_[index];
  const WorkerId id{index};
  ++failures_;
  checkers_.OnWorkerGone(id);
  ++worker.life;
  worker.up = false;
  worker.failed_at = queue_.now();
  worker.engine = factory_.MakeEngine(id);
  if (options_.training != nullptr) options_.training->restart(id);
  if (worker.peer.has_value()) worker.peer = factory_.MakePeer(id);
  worker.device_free = worker.compute = 0;
  worker.samples = worker.skipped = 0;
  const Nanos counted_out = queue_.now() + options_.timeout_ns;
  queue_.Push(counted_out, CountedOut{index});
  queue_.Push(std::max(counted_out, queue_.now() + stragglers_.down_ns()), Successor{index});
}

void VirtualRun::Deliver(Message message) {
  const uint32_t index = WorkerAt(message.to).value_or(message.to.index);
  switch (message.to.role) {
    case Role::kScheduler:
      coordinator_.OnMessage(queue_.now(), message, &outbox_);
      for (std::string& line : coordinator_.TakeNews()) {
        if (absl::StartsWith(line, "re-balanced")) news_.push_back(std::move(line));
      }
      return SendAll();
    case Role::kShard:
      if (machine_.has_value()) return ArriveAtShard(std::move(message));
      return DeliverToShard(std::move(message));
    case Role::kWorker:
    case Role::kPeer:
      return DeliverToNode(index, std::move(message));
    default:
      return;  // servers' own messages: welcomes, rosters
  }
}

void VirtualRun::DeliverToShard(Message message) {
  server::Shard& shard = shards_[message.to.index];
  checkers_.BeforeShard(shard, message);
  shard.OnMessage(queue_.now(), std::move(message), &outbox_);
  checkers_.AfterShard(shard, outbox_.messages);
  SendAll();
}

void VirtualRun::DeliverToNode(uint32_t index, Message message) {
  std::optional<server::Peer>& peer = workers_[index].peer;
  const cluster::WorkerRecipients to = cluster::RecipientsOf(message, peer.has_value());
  if (to.peer && !to.engine) {
    peer->OnMessage(queue_.now(), std::move(message), &outbox_);
    return SendAll();
  }
  if (to.peer) {
    peer->OnMessage(queue_.now(), message, &outbox_);
    SendAll();
  }
  if (to.engine) DeliverToWorker(index, message);
}

void VirtualRun::DeliverToWorker(uint32_t index, const Message& message) {
  Worker& worker = workers_[index];
  if (message.type == MessageType::kStart) {
    checkers_.OnWorkerStart(WorkerId{index}, message.clock);
    worker.started_with = message.epoch;
  }
  if (message.type == MessageType::kPullReply && message.clock == 1 && machine_.has_value()) {
    first_step_ = queue_.now();
  }
  worker.engine.OnMessage(queue_.now(), message, {&outbox_, &commands_});
  if (message.type == MessageType::kStart && worker.failed_at >= 0) {
    worker.clock = worker.reported = worker.engine.clock();
    worker.down += queue_.now() - std::exchange(worker.failed_at, -1);
  }
  AfterWorker(index);
}

void VirtualRun::AfterWorker(uint32_t index) {
  Worker& worker = workers_[index];
  checkers_.AfterWorker(WorkerId{index}, outbox_.messages);
  if (worker.failed_at < 0) {  // a successor's clock begins with its start
    // Steps that were skipped are not made.
    iterations_ += static_cast<uint64_t>(worker.engine.clock() - worker.clock) + worker.skipped -
                   worker.engine.progress().skipped;
    worker.skipped = worker.engine.progress().skipped;
    const Clock before = std::exchange(worker.clock, worker.engine.clock());
    if (worker.seat.has_value()) CountStep(index, before);
  }
  if (worker.engine.done() && worker.done_at < 0) worker.done_at = queue_.now();
  if (worker.engine.failure().has_value()) failure_ = worker.engine.failure();
  const bool told = !factory_.job().rebalance || worker.clock < worker.reported + kReportEvery;
  if (!told) SendHeartbeat(index);
  SendAll();
  RunCommands(index);
}

void VirtualRun::SendHeartbeat(uint32_t index) {
  Worker& worker = workers_[index];
  worker.reported = worker.clock;
  Message message;
  message.type = MessageType::kHeartbeat;
  message.from = Address::Of(WorkerId{index});
  message.to = Address::Scheduler();
  message.body = worker.engine.progress();
  outbox_.Send(std::move(message));
}

void VirtualRun::SendAll() {
  outbox_.timers.clear();  // no silence, no deadlines
  for (Message& message : outbox_.messages) {
    if (server::Peer::IsWithinNode(message)) {
      Post(queue_.now(), std::move(message));
      continue;
    }
    const uint64_t bytes = NetworkModel::BytesOf(message, factory_.layout());
    const Nanos at = ArrivalOf(message, bytes);
    ++messages_;
    bytes_ += bytes;
    Post(at, std::move(message));
  }
  outbox_.messages.clear();
}

Nanos VirtualRun::ArrivalOf(const Message& message, uint64_t bytes) {
  const Nanos now = queue_.now();
  if (!machine_.has_value()) {
    return network_.Arrival(now, message.from, message.to, bytes, LimitOf(message));
  }
  const bool first = message.clock == 0 && (message.type == MessageType::kPull ||
                                            message.type == MessageType::kPullReply);
  if (first) return now;
  return machine_->Arrival(now, message.from, message.to, bytes - NetworkModel::kHeaderBytes,
                           LimitOf(message));
}

// Of the slower end's links.
double VirtualRun::LimitOf(const Message& message) const {
  if (!stragglers_.limits_links()) return 0;
  double limit = 0;
  for (const Address end : {message.from, message.to}) {
    const std::optional<uint32_t> worker = WorkerAt(end);
    if (!worker.has_value()) continue;
    const double mbps = stragglers_.LinkMbps(WorkerId{*worker}, workers_[*worker].clock);
    if (mbps > 0) limit = limit == 0 ? mbps : std::min(limit, mbps);
  }
  return limit;
}

void VirtualRun::CountStep(uint32_t index, Clock before) {
  const auto clocks = static_cast<size_t>(workers_[index].clock);
  if (step_ends_.size() <= clocks) step_ends_.resize(clocks + 1);
  for (auto c = static_cast<size_t>(before) + 1; c <= clocks; ++c) {
    step_ends_[c] = {step_ends_[c].workers + 1, queue_.now()};
  }
}

Nanos VirtualRun::MeanStep() const {
  size_t last = step_ends_.size();
  while (last > 0 && step_ends_[last - 1].workers < workers_.size()) --last;
  size_t first = 1;
  if (const cluster::TeamJob* team = factory_.job().team.get()) first = 2 * team->plan.window;
  if (last <= first + 1) return 0;
  return (step_ends_[last - 1].at - step_ends_[first].at) / static_cast<Nanos>(last - 1 - first);
}

void VirtualRun::ReportProgress() {
  const double passed = static_cast<double>(queue_.now()) / static_cast<double>(horizon_);
  const double all = static_cast<double>(factory_.job().total_clocks) * factory_.job().workers;
  const double fraction = std::max(passed, static_cast<double>(iterations_) / all);
  if (fraction < reported_ + 0.01) return;
  reported_ = fraction;
  options_.progress(fraction);
}

VirtualResult VirtualRun::Result(Nanos end) const {
  VirtualResult result;
  result.policy = factory_.policy().spec;
  result.guarantee = factory_.policy().guarantee.ToString();
  result.stragglers = stragglers_.ToString();
  result.duration = static_cast<double>(end) / static_cast<double>(options_.iteration_ns);
  double busy = 0, total = 0;
  for (const Worker& worker : workers_) {
    result.clocks.push_back(worker.clock);
    result.skipped += worker.skipped;
    busy += static_cast<double>(worker.busy);
    const Nanos until = worker.done_at >= 0 ? worker.done_at : end;
    const Nanos down = worker.down + (worker.failed_at >= 0 ? until - worker.failed_at : 0);
    total += static_cast<double>(until - down);
    result.down += static_cast<double>(down);
  }
  const double unit = static_cast<double>(options_.iteration_ns);
  result.computing = busy / unit;
  result.down /= unit;
  result.iterations = iterations_;
  result.failures = failures_;
  result.waiting = std::max(0.0, total - busy) / unit;
  if (end > 0) {
    result.rate = static_cast<double>(iterations_) / (factory_.job().workers * result.duration);
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
  if (coordinator_.ended().has_value() && !EndedWell()) {
    result.diverged = coordinator_.ended()->text;
  }
  for (const Worker& worker : workers_) {
    for (const wire::LeftOut& entry : worker.engine.progress().left_out) {
      result.left_out += entry.updates;
    }
  }
  result.step_ns = MeanStep();
  result.first_step_ns = first_step_;
  result.messages = messages_;
  result.bytes = bytes_;
  result.events = events_;
  result.spans = spans_;
  result.news = news_;
  return result;
}

}  // namespace soapstone::sim
