// What the devices of a virtual run's workers do, and how long that takes.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "glog/logging.h"
#include "sim/virtual_run.h"

namespace soapstone::sim {
namespace {

constexpr uint64_t kSpansMax = 20'000'000;

}  // namespace

// The device is a stream: a command begins when the one before it has ended.
void VirtualRun::RunCommands(uint32_t index) {
  Worker& worker = workers_[index];
  for (const worker::DeviceCommand& command : commands_) {
    const auto* forward = std::get_if<worker::RunForward>(&command.what);
    if (forward != nullptr &&
        stragglers_.Fails(WorkerId{index}, command.clock, worker.started_with)) {
      Fail(index);
      break;
    }
    const Nanos cost = CostOf(index, command);
    worker.compute += cost;
    if (forward != nullptr && cost > 0) worker.samples += forward->part.size();
    if (options_.training != nullptr) {
      options_.training->device(WorkerId{index}, command, &answers_);
    }
    if (IsShared(index)) {
      AddToShared(index, command);
      continue;
    }
    const Nanos begin = std::max(worker.device_free, queue_.now());
    worker.device_free = begin + cost;
    Compute(index, command.clock, begin, cost);
    if (command.wants_event) {
      queue_.Push(worker.device_free, DeviceDone{index, worker.life, AnswerOf(index, command)});
    }
  }
  commands_.clear();
  if (IsShared(index)) TakeTurns(index);
}

void VirtualRun::Compute(uint32_t index, Clock clock, Nanos begin, Nanos cost) {
  if (cost == 0) return;
  const Nanos end = std::min(begin + cost, horizon_);
  workers_[index].busy += end - begin;
  if (options_.timeline && spans_.size() < kSpansMax) {
    spans_.push_back({index, clock, begin, end});
  }
}

bool VirtualRun::IsShared(uint32_t worker) const {
  return machine_.has_value() && factory_.job().team->KeepsParameters(worker);
}

// Part by part: an update goes between them.
void VirtualRun::AddToShared(uint32_t index, const worker::DeviceCommand& command) {
  Worker& worker = workers_[index];
  std::optional<worker::DeviceEvent> answer;
  if (command.wants_event) answer = AnswerOf(index, command);
  const auto* run = std::get_if<worker::RunSection>(&command.what);
  if (run == nullptr || run->first == run->last) {
    return worker.device.AddPart({.clock = command.clock, .answer = std::move(answer)});
  }
  const absl::Span<const Nanos> steps = SeatSteps(index, command.clock);
  const double factor = stragglers_.Factor(WorkerId{index}, command.clock);
  const auto cost = [&](uint32_t s) {
    return static_cast<Nanos>(std::llround(static_cast<double>(steps[s]) * factor));
  };
  for (uint32_t s = run->first; s + 1 < run->last; ++s) {
    worker.device.AddPart({.cost = cost(s), .clock = command.clock});
  }
  worker.device.AddPart(
      {.cost = cost(run->last - 1), .clock = command.clock, .answer = std::move(answer)});
}

void VirtualRun::TakeTurns(uint32_t index) {
  const SharedDevice::Work* const work = workers_[index].device.Begin(queue_.now());
  if (work == nullptr) return;
  if (!work->shard.has_value()) Compute(index, work->clock, queue_.now(), work->cost);
  queue_.Push(queue_.now() + work->cost, DeviceTurn{index});
}

void VirtualRun::EndTurn(uint32_t index) {
  Worker& worker = workers_[index];
  SharedDevice::Work done = worker.device.End();
  if (done.shard.has_value()) {
    EndUpdate(*done.shard);
  } else if (done.answer.has_value()) {
    TakeAnswer(index, *std::move(done.answer));
  }
  TakeTurns(index);
}

// What comes behind a push that is being applied waits: a channel keeps its order.
void VirtualRun::ArriveAtShard(wire::Message message) {
  const uint32_t shard = message.to.index;
  shard_queues_[shard].messages.push_back(std::move(message));
  if (!shard_queues_[shard].applying) ServeShard(shard);
}

void VirtualRun::ServeShard(uint32_t shard) {
  ShardQueue& queue = shard_queues_[shard];
  while (!queue.messages.empty()) {
    if (BeginUpdate(shard, queue.messages.front())) {
      queue.applying = true;
      return;
    }
    wire::Message next = std::move(queue.messages.front());
    queue.messages.pop_front();
    DeliverToShard(std::move(next));
  }
}

bool VirtualRun::BeginUpdate(uint32_t shard, const wire::Message& push) {
  if (push.type != wire::MessageType::kPush) return false;
  const uint64_t bytes = NetworkModel::PayloadOf(push, factory_.layout());
  if (!machine_->owned()) {
    Nanos& free = server_free_[machine_->HostOf(shard)];
    free = std::max(free, queue_.now()) + machine_->ServerTime(shard, bytes);
    queue_.Push(free, Applied{shard});
    return true;
  }
  if (!whole_pushes_.Completes(ShardId{shard}, push)) return false;
  const uint64_t received = bytes * (whole_pushes_.HoldersOf(ShardId{shard}) - 1);
  const uint32_t host = machine_->HostOf(shard);
  workers_[host].device.AddUpdate(queue_.now(), machine_->OwnerTime(shard, bytes, received), shard);
  TakeTurns(host);
  return true;
}

void VirtualRun::EndUpdate(uint32_t shard) {
  ShardQueue& queue = shard_queues_[shard];
  queue.applying = false;
  wire::Message applied = std::move(queue.messages.front());
  queue.messages.pop_front();
  DeliverToShard(std::move(applied));
  ServeShard(shard);
}

// The training's, or one that stands for a gradient. The time is the cost model's either way.
worker::DeviceEvent VirtualRun::AnswerOf(uint32_t index, const worker::DeviceCommand& command) {
  Worker& worker = workers_[index];
  worker::DeviceEvent event = {.run = command.run, .instruction = command.instruction};
  if (options_.training != nullptr) {
    CHECK_EQ(answers_.size(), 1u) << "a device answers one command by one event";
    event = std::move(answers_.front());
    answers_.clear();
  } else {
    const auto* collect = std::get_if<worker::CollectBucket>(&command.what);
    if (collect != nullptr) event.samples = collect->node.size();
    event.trained_samples = std::exchange(worker.samples, 0);
  }
  event.compute_ns = std::exchange(worker.compute, 0);
  return event;
}

absl::Span<const Nanos> VirtualRun::SeatSteps(uint32_t index, Clock clock) const {
  const SeatCosts& costs = options_.seat_costs != nullptr ? *options_.seat_costs : even_costs_;
  return costs.steps[index].at(workers_[index].seat->TeamSamples(clock));
}

// An iteration's time is charged to its first operator, shared out over its micro-batches; of a
// seat to the parts that it runs.
Nanos VirtualRun::CostOf(uint32_t index, const worker::DeviceCommand& command) const {
  if (const auto* run = std::get_if<worker::RunSection>(&command.what)) {
    const absl::Span<const Nanos> steps = SeatSteps(index, command.clock);
    const Nanos planned =
        std::accumulate(steps.begin() + run->first, steps.begin() + run->last, Nanos{0});
    return std::llround(static_cast<double>(planned) *
                        stragglers_.Factor(WorkerId{index}, command.clock));
  }
  const auto* forward = std::get_if<worker::RunForward>(&command.what);
  if (forward == nullptr || forward->op != 0) return 0;
  const double share = static_cast<double>(factory_.job().micro_batches) /
                       static_cast<double>(factory_.job().workers);
  const double iterations = forward->part.size() / share;
  return std::llround(static_cast<double>(options_.iteration_ns) * iterations *
                      stragglers_.Factor(WorkerId{index}, command.clock));
}

}  // namespace soapstone::sim
