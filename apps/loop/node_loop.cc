#include "apps/loop/node_loop.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "base/exit_codes.h"
#include "base/steady_clock.h"

namespace soapstone::apps {
namespace {

constexpr Nanos kRetryEvery = 2 * kMillisecond;  // while a peer's queue is full
// Two readings of the clock are a tenth of what a small message costs.
constexpr int kDeadlineUses = 16;

}  // namespace

NodeLoop::NodeLoop(std::unique_ptr<transport::Transport> transport, uint32_t shards_per_server)
    : transport_(std::move(transport)), router_(transport_.get(), shards_per_server) {}

void NodeLoop::RequestStop(int code) {
  const Nanos now = Now();
  int none = 0;
  if (stop_code_.compare_exchange_strong(none, code)) {
    stop_asked_at_ = now;
  } else if (now - stop_asked_at_ > kSameStop) {
    stop_now_ = true;
  }
  transport_->Wake();
}

Nanos NodeLoop::Now() { return SteadyNow().nanos(); }

void NodeLoop::Flush(wire::Outbox* out) {
  if (!out->timers.empty()) deadline_uses_ = 0;
  for (const wire::TimerRequest& timer : out->timers) timers_[timer.id] = timer.at;
  out->timers.clear();
  for (wire::Message& message : out->messages) {
    if (message.type == wire::MessageType::kHeartbeat) NoteHeartbeat();
    router_.Send(std::move(message));
  }
  out->messages.clear();
}

void NodeLoop::NoteHeartbeat() {
  const Nanos now = Now();
  const Nanos gap = now - last_heartbeat_.value_or(now);
  heartbeat_gap_max_ = std::max(heartbeat_gap_max_, gap);
  if (gap > kLate) ++heartbeats_late_;
  last_heartbeat_ = now;
}

double NodeLoop::heartbeat_gap_s() const {
  const Nanos now = Now();
  const Nanos gap = std::max(heartbeat_gap_max_, now - last_heartbeat_.value_or(now));
  return static_cast<double>(gap) / kSecond;
}

SteadyTime NodeLoop::DeadlineOf(Nanos patience) const {
  const Nanos now = Now();
  for (const auto& [id, at] : timers_) patience = std::min(patience, at - now);
  return SteadyTime::At(now + std::max<Nanos>(patience, 0));
}

std::optional<wire::Message> NodeLoop::Next(Nanos patience) {
  if (router_.waiting()) {
    router_.Retry();
    patience = std::min(patience, kRetryEvery);
  }
  if (deadline_uses_ == 0 || patience != deadline_patience_) {
    deadline_ = DeadlineOf(patience);
    deadline_patience_ = patience;
    deadline_uses_ = kDeadlineUses;
  }
  --deadline_uses_;
  std::optional<wire::Message> message = transport_->Receive(deadline_);
  if (!message.has_value()) deadline_uses_ = 0;
  if (message.has_value() && message->type == wire::MessageType::kRoster) {
    lost_ = TakeLost();
    for (transport::LostNode& node : lost_) node.epoch = std::min(node.epoch, epoch_);
    epoch_ = std::max(epoch_, message->epoch);
  }
  return message;
}

std::vector<wire::TimerId> NodeLoop::TakeDue(Nanos now) {
  std::vector<wire::TimerId> due;
  std::erase_if(timers_, [&](const auto& timer) {
    if (timer.second > now) return false;
    due.push_back(timer.first);
    return true;
  });
  return due;
}

std::vector<transport::LostNode> NodeLoop::TakeLost() {
  std::vector<transport::LostNode> lost = std::exchange(lost_, {});
  for (transport::LostNode& node : transport_->TakeLost()) lost.push_back(std::move(node));
  for (transport::LostNode& node : router_.TakeLost()) lost.push_back(std::move(node));
  return lost;
}

void LogEnd(const wire::Notice& end) {
  // That training diverged is the job's result, which the scheduler says.
  const bool asked = end.code == kExitOk || end.code == kExitTerminated ||
                     end.code == kExitInterrupted || end.code == kExitNotFinite;
  LOG_IF(INFO, asked) << "ended: " << end.text;
  LOG_IF(ERROR, !asked) << "ended: " << end.text;
}

}  // namespace soapstone::apps
