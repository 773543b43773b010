#include "scheduler/checkpoints/checkpoint_orders.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace soapstone::scheduler {
namespace {

constexpr Nanos kTryAgain = kSecond / 5;  // of an end

}  // namespace

// The first multiple that no shard is known to have come to, nor will have when it hears of it.
Clock CheckpointOrders::NextClock() const {
  const Clock after = newest_ + lead_;
  return (after / options_.every + 1) * options_.every;
}

void CheckpointOrders::Look(Nanos now, Clock newest, const wire::Roster& roster,
                            wire::Outbox* out) {
  newest_ = std::max(newest_, newest);
  LookAtHeads(roster);
  const bool waits = stage_ == Stage::kBinding || stage_ == Stage::kCapturing;
  if (waits && waits_since_.has_value() && now - *waits_since_ > options_.patience_ns) {
    Fail(now, absl::StrCat("not written after ", options_.patience_ns / kSecond, " s"));
  }
  if (stopped_ || options_.shards.empty()) return;
  if (stage_ == Stage::kIdle) BeginNext(now);
  if (stage_ == Stage::kBinding && !binds()) Capture(now, clock_, out);
  if (stage_ == Stage::kBinding || under_bound_) LookAtBound(now, roster, out);
  bound_.Look(now, roster, out);
}

void CheckpointOrders::LookAtHeads(const wire::Roster& roster) {
  const SharedList<wire::Chain> before = std::exchange(chains_, roster.chains);
  if (before == chains_ || before.size() != chains_.size() || stage_ != Stage::kCapturing) return;
  for (const ShardId shard : options_.shards) {
    const wire::Link& was = before[Index(shard)].links.front();
    if (was.server == chains_[Index(shard)].links.front().server) continue;
    newest_ = std::max(newest_, clock_);  // what is written of it is taken away meanwhile
    return GiveUp();
  }
}

void CheckpointOrders::BeginNext(Nanos now) {
  if (ending_) {
    const bool just_failed = failed_at_.has_value() && now - *failed_at_ < kTryAgain;
    if (!ended_at_.has_value() && !just_failed) stage_ = Stage::kBinding;
    return;
  }
  clock_ = NextClock();
  if (clock_ >= options_.end) return;
  stage_ = Stage::kBinding;
  if (!options_.aligned) return;
  waits_since_ = now;
  bound_.Bind(clock_, options_.every);
}

void CheckpointOrders::LookAtBound(Nanos now, const wire::Roster& roster, wire::Outbox* out) {
  const std::optional<Clock> at = bound_.At(roster);
  if (!at.has_value()) return;
  if (stage_ == Stage::kCapturing) {
    // One that has joined since turned out not to be bound.
    if (captured_.size() < options_.shards.size() && *at != clock_) GiveUp();
    return;
  }
  if (stage_ != Stage::kBinding) return;
  if (*at >= options_.end) {
    newest_ = options_.end;
    return ending_ ? GiveUpEnd() : GiveUp();
  }
  if (ending_ && *at == last_committed_) {
    stage_ = Stage::kIdle;
    ended_at_ = at;
    return;
  }
  Capture(now, *at, out);
}

void CheckpointOrders::Capture(Nanos now, Clock clock, wire::Outbox* out) {
  stage_ = Stage::kCapturing;
  clock_ = clock;
  under_bound_ = binds();
  captured_.clear();
  unwritten_.clear();
  parts_.clear();
  waits_since_ = under_bound_ ? std::optional(now) : std::nullopt;
  for (const ShardId shard : options_.shards) {
    wire::Message order;
    order.type = wire::MessageType::kCheckpoint;
    order.from = wire::Address::Scheduler();
    order.to = wire::Address::Of(shard);
    order.clock = clock;
    out->Send(std::move(order));
  }
}

void CheckpointOrders::End() {
  if (ending_) return;
  ending_ = true;
  waits_since_.reset();
  // What no shard has come to yet waits for a nearer clock; where some have, the rest will.
  const bool begun = stage_ == Stage::kCapturing && !captured_.empty();
  if (stage_ == Stage::kBinding || (stage_ == Stage::kCapturing && !begun)) GiveUp();
  if (!begun || !bound_.holds()) bound_.Bind(0, 1);
}

void CheckpointOrders::GiveUpEnd() {
  ending_ = false;
  if (stage_ == Stage::kBinding || stage_ == Stage::kCapturing) GiveUp();
  bound_.Lift();
}

void CheckpointOrders::OnMessage(Nanos now, const wire::Message& message) {
  if (message.type == wire::MessageType::kBounded) return bound_.OnBounded(message);
  if (message.from.role != wire::Role::kShard) return;
  const ShardId shard{message.from.index};
  // Of who had the shard before.
  const bool chained = Index(shard) < chains_.size();
  if (chained && message.epoch < chains_[Index(shard)].links.front().since) return;
  if (std::ranges::find(options_.shards, shard) == options_.shards.end()) return;
  if (message.type == wire::MessageType::kWritten) return OnWritten(now, shard, message);
  if (message.type != wire::MessageType::kCaptured) return;
  if (stage_ == Stage::kCapturing && message.clock == clock_) OnCaptured(now, shard);
}

void CheckpointOrders::OnCaptured(Nanos now, ShardId shard) {
  newest_ = std::max(newest_, clock_);
  captured_.insert(shard);
  if (!waits_since_.has_value()) waits_since_ = now;
  if (captured_.size() == options_.shards.size() && !ending_) bound_.Lift();
}

void CheckpointOrders::OnWritten(Nanos now, ShardId shard, const wire::Message& message) {
  const auto* written = std::get_if<wire::Written>(&message.body);
  if (written == nullptr || stage_ != Stage::kCapturing) return;
  if (written->frontier > clock_) {
    // Twice what it was late by, at least: after some orders one comes in time.
    newest_ = std::max(newest_, written->frontier);
    lead_ = std::max({2 * lead_, 2 * (written->frontier - clock_), Clock{1}});
    GiveUp();
    // It has an update of somebody who is lost and was ahead: the others have to come there too.
    if (ending_) bound_.Bind(written->frontier, 1);
    return;
  }
  if (message.clock != clock_ || parts_.contains(shard)) return;
  if (!written->error.empty()) return OnUnwritten(now, shard, written->error);
  OnCaptured(now, shard);
  Part part{.bytes = written->bytes};
  for (const Buffer& frame : message.payload) {
    const size_t count = frame.size() / sizeof(uint64_t);
    part.blocks.resize(count);
    if (count > 0) std::memcpy(part.blocks.data(), frame.data(), count * sizeof(uint64_t));
  }
  parts_.emplace(shard, std::move(part));
  if (!unwritten_.empty()) OnUnwritten(now, *unwritten_.begin(), why_unwritten_);
}

void CheckpointOrders::OnUnwritten(Nanos now, ShardId shard, const std::string& why) {
  unwritten_.insert(shard);
  why_unwritten_ = why;
  if (ending_ && unwritten_.size() + parts_.size() < options_.shards.size()) return;
  Fail(now, absl::StrCat("shard ", Index(shard), ": ", why));
}

std::optional<CheckpointOrders::Whole> CheckpointOrders::TakeWhole() {
  if (stage_ != Stage::kCapturing || parts_.size() < options_.shards.size()) return std::nullopt;
  stage_ = Stage::kCommitting;
  return Whole{.clock = clock_, .parts = std::exchange(parts_, {})};
}

void CheckpointOrders::OnCommitted(Nanos now, Clock clock, const std::string& error) {
  if (stage_ != Stage::kCommitting || clock_ != clock) return;
  if (!error.empty()) return Fail(now, error);
  ++committed_;
  last_committed_ = clock;
  stage_ = Stage::kIdle;
  lead_ -= lead_ / 4;
  if (std::exchange(said_failed_, false)) {
    news_.push_back(absl::StrCat("checkpoint ", clock, " is written again"));
  }
}

void CheckpointOrders::GiveUp() {
  // An end may be tried again at the same clock; what is unfinished then goes at last.
  if (stage_ != Stage::kBinding && !ending_) given_up_.push_back(clock_);
  stage_ = Stage::kIdle;
  under_bound_ = false;
  if (!ending_) bound_.Lift();
}

void CheckpointOrders::Fail(Nanos now, const std::string& why) {
  ++failed_;
  failed_at_ = now;
  // Who waits there is to go on.
  if (options_.aligned) newest_ = std::max(newest_, clock_);
  if (!std::exchange(said_failed_, true)) {
    news_.push_back(absl::StrCat("checkpoint ", clock_, " is not written, and ",
                                 ending_ ? "is tried again: " : "training goes on: ", why));
  }
  GiveUp();
}

void CheckpointOrders::AddTo(Fingerprint* f) const {
  bound_.AddTo(f);
  f->Add(stage_);
  f->Add(clock_);
  f->Add(newest_);
  f->Add(lead_);
  f->Add(under_bound_);
  f->Add(waits_since_.has_value());
  f->Add(captured_.size());
  for (const ShardId shard : captured_) f->Add(shard);
  f->Add(unwritten_.size());
  for (const ShardId shard : unwritten_) f->Add(shard);
  f->Add(parts_.size());
  for (const auto& [shard, part] : parts_) f->Add(shard);
  f->Add(stopped_);
  f->Add(ending_);
  f->Add(ended_at_.value_or(kNoClock));
  f->Add(last_committed_);
  f->Add(failed_at_.has_value());
}

}  // namespace soapstone::scheduler
