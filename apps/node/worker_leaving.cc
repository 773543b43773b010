// WorkerNode: how it ends, and how it leaves a job that goes on.
#include <glog/logging.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/node/worker_node.h"
#include "base/exit_codes.h"

namespace soapstone::apps {

using wire::MessageType;

// Where it has checkpoints the job stops with one, if it cannot go on without this worker, or if
// all of it is told to end: then this worker computes until that is written, and else until it is
// told that it may go.
void WorkerNode::BeginLeaving(Nanos now) {
  leave_by_ = now + NanosOf(job_->config.cluster().grace_s());
  const bool may_stop = job_->checkpoint_every > 0 && started_ && !engine_->done();
  if (!may_stop) return Leave(now);
  LOG(INFO) << "told to end: asking the scheduler whether the job stops for that";
  asked_to_leave_ = true;
  membership_.AskLeave(&out_);
}

void WorkerNode::OnMayLeave(Nanos now) {
  if (std::exchange(asked_to_leave_, false)) Leave(now);
}

void WorkerNode::Leave(Nanos now) {
  if (engine_.has_value() && started_ && !engine_->done()) {
    LOG(INFO) << "leaving after the step in hand";
    Record({.kind = sim::EventKind::kLeave, .now = now});
    engine_->RequestLeave();
    if (device_ != nullptr) device_->Hurry();
    return;
  }
  if (engine_.has_value()) {  // nothing in hand
    wire::Message leave;
    leave.type = MessageType::kLeave;
    leave.from = wire::Address::Of(WorkerId{*membership_.rank()});
    leave.to = wire::Address::Scheduler();
    leave.clock = engine_->clock();
    leave.body = engine_->ProgressAt(now);
    Record(sim::ToldEvent(now, leave));
    out_.Send(std::move(leave));
  }
  end_ = {loop_.stop_code(), "left"};
}

bool WorkerNode::Over(Nanos now) {
  if (end_.has_value()) return true;
  if (engine_.has_value() && engine_->failure().has_value()) {
    // Refused: the job has counted this worker out. A fresh process may join.
    end_ = {kExitPeerLost, *engine_->failure()};
  } else if (const auto broken = BrokenGuarantee(); broken.has_value()) {
    wire::Message message;
    message.type = MessageType::kBroken;
    message.from = wire::Address::Of(WorkerId{*membership_.rank()});
    message.to = wire::Address::Scheduler();
    end_ = {kExitBroken, *broken};
    message.body = *end_;
    out_.Send(std::move(message));
    loop_.Flush(&out_);
  } else if (engine_.has_value() && engine_->left()) {
    end_ = {loop_.stop_code(), "left"};
  } else if (membership_.ended().has_value()) {
    end_ = *membership_.ended();
    if (leave_by_.has_value() && end_->code == kExitStopped) end_->code = loop_.stop_code();
  } else if (leave_by_.has_value() && (now > *leave_by_ || loop_.stop_now_requested())) {
    const bool twice = loop_.stop_now_requested();
    abandon_device_ = true;
    end_ = {loop_.stop_code(), absl::StrCat("left in the middle of a step",
                                            twice ? ": asked twice" : ", longer than grace_s")};
  }
  return end_.has_value();
}

}  // namespace soapstone::apps
