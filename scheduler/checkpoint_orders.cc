#include "scheduler/checkpoint_orders.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace soapstone::scheduler {

// The first multiple that no shard is known to have come to, nor will have when it hears of it.
Clock CheckpointOrders::NextClock() const {
  const Clock after = newest_ + lead_;
  return (after / options_.every + 1) * options_.every;
}

void CheckpointOrders::Look(Nanos now, Clock newest, wire::Outbox* out) {
  newest_ = std::max(newest_, newest);
  if (ordered_.has_value()) {
    const bool late =
        !committing_ && answered_at_.has_value() && now - *answered_at_ > options_.patience_ns;
    if (!late) return;
    Fail(absl::StrCat("not written after ", options_.patience_ns / kSecond, " s"));
  }
  const Clock clock = NextClock();
  if (stopped_ || options_.shards.empty() || clock >= options_.end) return;
  ordered_ = clock;
  parts_.clear();
  answered_at_.reset();
  for (const ShardId shard : options_.shards) {
    wire::Message order;
    order.type = wire::MessageType::kCheckpoint;
    order.from = wire::Address::Scheduler();
    order.to = wire::Address::Of(shard);
    order.clock = clock;
    out->Send(std::move(order));
  }
}

void CheckpointOrders::OnWritten(Nanos now, const wire::Message& message) {
  const auto* written = std::get_if<wire::Written>(&message.body);
  if (written == nullptr || message.from.role != wire::Role::kShard) return;
  const ShardId shard{message.from.index};
  if (written->frontier >= 0 && ordered_.has_value() && written->frontier > *ordered_) {
    // Twice what it was late by, at least: after some orders one comes in time.
    newest_ = std::max(newest_, written->frontier);
    lead_ = std::max({2 * lead_, 2 * (written->frontier - *ordered_), Clock{1}});
    return GiveUp();
  }
  const bool of_these = std::ranges::find(options_.shards, shard) != options_.shards.end();
  if (!ordered_.has_value() || message.clock != *ordered_ || committing_ || !of_these) return;
  newest_ = std::max(newest_, message.clock);
  if (!written->error.empty()) {
    return Fail(absl::StrCat("shard ", Index(shard), ": ", written->error));
  }
  if (!answered_at_.has_value()) answered_at_ = now;
  Part part{.bytes = written->bytes};
  for (const Buffer& frame : message.payload) {
    const size_t count = frame.size() / sizeof(uint64_t);
    part.blocks.resize(count);
    if (count > 0) std::memcpy(part.blocks.data(), frame.data(), count * sizeof(uint64_t));
  }
  parts_.emplace(shard, std::move(part));
}

std::optional<CheckpointOrders::Whole> CheckpointOrders::TakeWhole() {
  if (!ordered_.has_value() || committing_ || parts_.size() < options_.shards.size()) {
    return std::nullopt;
  }
  committing_ = true;
  return Whole{.clock = *ordered_, .parts = std::exchange(parts_, {})};
}

void CheckpointOrders::OnCommitted(Clock clock, const std::string& error) {
  if (!committing_ || ordered_ != clock) return;
  committing_ = false;
  if (!error.empty()) return Fail(error);
  ++committed_;
  ordered_.reset();
  lead_ -= lead_ / 4;
  if (std::exchange(said_failed_, false)) {
    news_.push_back(absl::StrCat("checkpoint ", clock, " is written again"));
  }
}

void CheckpointOrders::GiveUp() {
  committing_ = false;
  given_up_.push_back(*std::exchange(ordered_, std::nullopt));
}

void CheckpointOrders::Fail(const std::string& why) {
  ++failed_;
  if (!std::exchange(said_failed_, true)) {
    news_.push_back(
        absl::StrCat("checkpoint ", *ordered_, " is not written, and training goes on: ", why));
  }
  GiveUp();
}

}  // namespace soapstone::scheduler
