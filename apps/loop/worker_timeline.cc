#include "apps/loop/worker_timeline.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <variant>

#include "apps/loop/node_loop.h"

namespace soapstone::apps {
namespace {

using timeline::Event;
using timeline::EventKind;
using wire::MessageType;

struct Kinds {
  EventKind operator()(const worker::FindKeys&) const { return EventKind::kKeys; }
  EventKind operator()(const worker::LoadCommand&) const { return EventKind::kLoad; }
  EventKind operator()(const worker::RunForward&) const { return EventKind::kForward; }
  EventKind operator()(const worker::RunBackward&) const { return EventKind::kBackward; }
  EventKind operator()(const worker::CollectBucket&) const { return EventKind::kCollect; }
  EventKind operator()(const worker::UpdateLocally&) const { return EventKind::kUpdate; }
  EventKind operator()(const worker::ElasticCommand&) const { return EventKind::kElastic; }
  EventKind operator()(const worker::TakeDelta&) const { return EventKind::kDelta; }
  EventKind operator()(const worker::EvaluateModel&) const { return EventKind::kEvaluate; }
  // Of a seat nothing is written down (CheckStrategyGoes).
  EventKind operator()(const worker::BeginBatch&) const { return EventKind::kLoad; }
  EventKind operator()(const worker::RunSection&) const { return EventKind::kForward; }
  EventKind operator()(const worker::TakeCommand&) const { return EventKind::kLoad; }
  EventKind operator()(const worker::GiveBlock&) const { return EventKind::kCollect; }
};

uint32_t OperatorOf(const worker::DeviceWork& what) {
  if (const auto* forward = std::get_if<worker::RunForward>(&what)) return forward->op;
  if (const auto* backward = std::get_if<worker::RunBackward>(&what)) return backward->op;
  return 0;
}

uint32_t Micros(Nanos ns) {
  return static_cast<uint32_t>(
      std::clamp<Nanos>(ns / 1000, 0, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

void WorkerTimeline::Open(const Job& job, WorkerId self, uint64_t session) {
  std::vector<std::string> operators;
  if (job.graph != nullptr) {
    for (const models::Op& op : job.graph->ops()) operators.push_back(op.name);
  }
  loop_ = OpenEvents(job, timeline::ThreadKind::kWorkerLoop, Index(self), session);
  device_ = OpenEvents(job, timeline::ThreadKind::kWorkerDevice, Index(self), session,
                       std::move(operators));
}

DeviceThread::Runner WorkerTimeline::Around(DeviceThread::Runner runner) const {
  if (device_ == nullptr) return runner;
  return [events = device_, runner = std::move(runner)](const worker::DeviceCommand& command,
                                                        std::vector<worker::DeviceEvent>* answers,
                                                        const DeviceThread::Rest& rest) {
    const Nanos begin = NodeLoop::Now();
    runner(command, answers, rest);
    events->Write({.begin_ns = begin,
                   .end_ns = NodeLoop::Now(),
                   .clock = command.clock,
                   .kind = std::visit(Kinds{}, command.what),
                   .with = OperatorOf(command.what)});
  };
}

void WorkerTimeline::NoteSent(const std::vector<wire::Message>& messages) {
  if (messages.empty()) return;
  const Nanos now = NodeLoop::Now();
  for (const wire::Message& message : messages) {
    if (message.to.role != wire::Role::kShard) continue;
    if (message.type == MessageType::kPush) {
      sent_.push_back({.begin_ns = now,
                       .clock = message.clock,
                       .flow = FlowOf(message),
                       .kind = EventKind::kPush,
                       .with = message.to.index});
    } else if (message.type == MessageType::kPull) {
      Asked& asked = asked_[message.to.index];
      if (asked.clock != message.clock) asked = {.clock = message.clock, .at = now};
    }
  }
}

void WorkerTimeline::WriteSent() {
  const Nanos now = NodeLoop::Now();
  for (Event& event : sent_) {
    event.end_ns = now;
    loop_->Write(event);
  }
  sent_.clear();
}

void WorkerTimeline::OnReply(const wire::Message& reply) {
  const auto& body = wire::As<wire::PullReply>(reply);
  const auto asked = asked_.find(reply.from.index);
  if (reply.from.role != wire::Role::kShard || asked == asked_.end() || body.final) return;
  if (asked->second.clock != reply.clock) return;
  loop_->Write({.begin_ns = asked->second.at,
                .end_ns = NodeLoop::Now(),
                .clock = reply.clock,
                .kind = EventKind::kPull,
                .with = reply.from.index,
                .parked_us = Micros(body.parked_ns),
                .queued_us = Micros(body.queued_ns)});
  asked_.erase(asked);
}

void WorkerTimeline::OnClock(const wire::Progress& progress) {
  const Nanos now = NodeLoop::Now();
  // A step that was given up for a later one was not made.
  if (clock_ != kNoClock && progress.skipped == skipped_) {
    loop_->Write(
        {.begin_ns = began_, .end_ns = now, .clock = progress.clock - 1, .kind = EventKind::kStep});
  }
  clock_ = progress.clock;
  skipped_ = progress.skipped;
  began_ = now;
}

}  // namespace soapstone::apps
