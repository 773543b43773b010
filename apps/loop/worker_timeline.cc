#include "apps/loop/worker_timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "apps/loop/node_loop.h"
#include "models/graph/section.h"
#include "strategy/order.h"
#include "strategy/team_plan.h"
#include "wire/membership/teams.h"

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
  EventKind operator()(const worker::BeginBatch&) const { return EventKind::kBatch; }
  // A seat's executor tells of each of their steps.
  EventKind operator()(const worker::RunSection&) const { return EventKind::kNone; }
  EventKind operator()(const worker::TakeCommand&) const { return EventKind::kNone; }
  EventKind operator()(const worker::GiveBlock&) const { return EventKind::kNone; }
};

uint32_t OperatorOf(const worker::DeviceWork& what) {
  if (const auto* forward = std::get_if<worker::RunForward>(&what)) return forward->op;
  if (const auto* backward = std::get_if<worker::RunBackward>(&what)) return backward->op;
  return 0;
}

EventKind KindOf(models::SectionStep::Kind kind) {
  switch (kind) {
    case models::SectionStep::Kind::kTake:
      return EventKind::kTake;
    case models::SectionStep::Kind::kForward:
      return EventKind::kForward;
    case models::SectionStep::Kind::kBackward:
      return EventKind::kBackward;
    case models::SectionStep::Kind::kGive:
      return EventKind::kGive;
  }
  return EventKind::kNone;
}

std::vector<std::string> NamesOf(const Job& job, WorkerId self) {
  std::vector<std::string> names;
  if (job.team != nullptr) {
    const uint32_t seat = wire::SeatOf(self, job.team->shape);
    for (const models::SectionPart& part :
         job.team->plan.steps.begin()->second.seats[seat].section.parts) {
      names.push_back(part.name);
    }
  } else if (job.graph != nullptr) {
    for (const models::Op& op : job.graph->ops()) names.push_back(op.name);
  }
  return names;
}

// What the strategy's file says of when this seat's halves were to run, once and for all.
void WritePlanned(const Job& job, WorkerId self, uint64_t session) {
  const planner::TeamPlan& plan = job.team->plan;
  const uint32_t seat = wire::SeatOf(self, job.team->shape);
  if (plan.planned.empty()) return;
  const std::unique_ptr<timeline::EventFile> file =
      OpenPlanned(job, Index(self), session, NamesOf(job, self), plan.planned[seat].size() + 1);
  if (file == nullptr) return;
  file->Write({.end_ns = plan.planned_ns,
               .kind = EventKind::kStep,
               .with = Index(wire::TeamOf(self, job.team->shape))});
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> parts;
  for (const planner::TaskRef& part : plan.steps.begin()->second.seats[seat].parts) {
    parts.emplace(std::pair(part.op, part.part), static_cast<uint32_t>(parts.size()));
  }
  for (const auto& [half, when] : plan.planned[seat]) {
    file->Write({.begin_ns = when.begin,
                 .end_ns = when.end,
                 .kind = half.backward ? EventKind::kBackward : EventKind::kForward,
                 .with = parts.at({half.op, half.part})});
  }
}

uint32_t Micros(Nanos ns) {
  return static_cast<uint32_t>(
      std::clamp<Nanos>(ns / 1000, 0, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

void WorkerTimeline::Open(const Job& job, WorkerId self, uint64_t session,
                          worker::SeatExecutor* seat) {
  loop_ = OpenEvents(job, timeline::ThreadKind::kWorkerLoop, Index(self), session);
  if (loop_ == nullptr) return;
  device_ = OpenEvents(job, timeline::ThreadKind::kWorkerDevice, Index(self), session,
                       NamesOf(job, self));
  if (seat == nullptr || device_ == nullptr) return;
  has_seat_ = true;
  team_ = Index(wire::TeamOf(self, job.team->shape));
  WritePlanned(job, self, session);
  seat->Watch([events = device_, team = team_](const worker::DoneStep& step) {
    const bool block = step.kind == models::SectionStep::Kind::kTake ||
                       step.kind == models::SectionStep::Kind::kGive;
    events->Write({.begin_ns = step.begin_ns,
                   .end_ns = step.end_ns,
                   .clock = step.clock,
                   .flow = block ? FlowOfBlock(team, step.clock, step.what) : 0,
                   .kind = KindOf(step.kind),
                   .with = step.what});
  });
}

DeviceThread::Runner WorkerTimeline::Around(DeviceThread::Runner runner) const {
  if (device_ == nullptr) return runner;
  return [events = device_, runner = std::move(runner), rests = has_seat_](
             const worker::DeviceCommand& command, std::vector<worker::DeviceEvent>* answers,
             const DeviceThread::Rest& rest) {
    const Nanos begin = NodeLoop::Now();
    Nanos end = 0;  // before it rested, of a seat
    runner(command, answers, [&](Nanos duration) {
      const Nanos began = NodeLoop::Now();
      const Nanos rested = rest(duration);
      if (!rests) return rested;
      end = began;
      events->Write({.begin_ns = began,
                     .end_ns = NodeLoop::Now(),
                     .clock = command.clock,
                     .kind = EventKind::kRest});
      return rested;
    });
    const EventKind kind = std::visit(Kinds{}, command.what);
    if (kind == EventKind::kNone) return;
    events->Write({.begin_ns = begin,
                   .end_ns = end > 0 ? end : NodeLoop::Now(),
                   .clock = command.clock,
                   .kind = kind,
                   .with = OperatorOf(command.what)});
  };
}

void WorkerTimeline::NoteSent(const std::vector<wire::Message>& messages) {
  if (messages.empty()) return;
  const Nanos now = NodeLoop::Now();
  for (const wire::Message& message : messages) {
    const auto* block = std::get_if<wire::Block>(&message.body);
    if (block != nullptr && block->micro_batches.empty() && !message.payload.empty()) {
      const uint32_t number = block->number;
      sent_.push_back({.begin_ns = now,
                       .clock = message.clock,
                       .flow = FlowOfBlock(team_, message.clock, number),
                       .kind = EventKind::kBlock,
                       .with = number});
    }
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
