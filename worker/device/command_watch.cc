#include "worker/device/command_watch.h"

#include <algorithm>
#include <iterator>

namespace soapstone::worker {
namespace {

constexpr int64_t kSlowMedians = 8, kHungMedians = 32;
constexpr int64_t kMissedLooks = 4;  // a busy machine makes one late, not so many
constexpr int64_t kHungFloors = 4, kHungFloorsUnknown = 12;

}  // namespace

void CommandWatch::Begin(Nanos now, OpCode op, uint32_t index) {
  in_hand_ = Key(op, index);
  since_ = now;
  left_out_ns_ = 0;
  said_slow_ = false;
}

void CommandWatch::End(Nanos now) {
  if (in_hand_.has_value()) {
    Durations& durations = before_[*in_hand_];
    durations.last[durations.count++ % kKept] = std::max<Nanos>(now - since_ - left_out_ns_, 0);
  }
  in_hand_.reset();
  since_ = now;
  left_out_ns_ = 0;
  said_slow_ = false;
}

void CommandWatch::EndRest(Nanos now) {
  if (rest_since_.has_value()) left_out_ns_ += now - *rest_since_;
  rest_since_.reset();
}

Nanos CommandWatch::MedianOf(const Key& key) const {
  const auto found = before_.find(key);
  if (found == before_.end() || found->second.count < kKnown) return -1;
  std::array<Nanos, kKept> sorted = found->second.last;
  const size_t count = std::min(found->second.count, kKept);
  const auto end = std::next(sorted.begin(), static_cast<ptrdiff_t>(count));
  const auto middle = std::next(sorted.begin(), static_cast<ptrdiff_t>(count / 2));
  std::nth_element(sorted.begin(), middle, end);
  return *middle;
}

std::optional<Overdue> CommandWatch::Look(Nanos now, uint64_t waiting) {
  const bool first_look = looked_ < 0;
  const Nanos since_look = first_look ? 0 : now - looked_;
  looked_ = now;
  if (rest_since_.has_value()) return std::nullopt;
  if (!in_hand_.has_value() && (waiting == 0 || first_look)) {
    since_ = now;
    left_out_ns_ = 0;
    return std::nullopt;
  }
  if (since_look > kMissedLooks * look_every_ns_)
    left_out_ns_ += std::min(since_look, now - since_);
  Overdue overdue = {.taken = in_hand_.has_value(), .for_ns = now - since_ - left_out_ns_};
  if (in_hand_.has_value()) {
    overdue.op = in_hand_->first;
    overdue.index = in_hand_->second;
    overdue.median_ns = MedianOf(*in_hand_);
  }
  const Nanos median = std::max<Nanos>(overdue.median_ns, 0);
  const Nanos floors =
      (overdue.taken && overdue.median_ns < 0 ? kHungFloorsUnknown : kHungFloors) * floor_ns_;
  overdue.hung = overdue.for_ns > std::max(floors, kHungMedians * median) &&
                 !(overdue.taken && overdue.op == OpCode::kEvaluate);
  if (overdue.hung) return overdue;
  if (overdue.for_ns <= std::max(floor_ns_, kSlowMedians * median) || said_slow_) {
    return std::nullopt;
  }
  said_slow_ = true;
  return overdue;
}

const char* OpName(OpCode op) {
  switch (op) {
    case OpCode::kKeys:
      return "keys";
    case OpCode::kPull:
      return "pull";
    case OpCode::kLoad:
      return "load";
    case OpCode::kForward:
      return "forward";
    case OpCode::kBackward:
      return "backward";
    case OpCode::kCollect:
      return "collect";
    case OpCode::kPush:
      return "push";
    case OpCode::kClock:
      return "clock";
    case OpCode::kPrefetch:
      return "ahead";
    case OpCode::kUpdate:
      return "update";
    case OpCode::kElastic:
      return "elastic";
    case OpCode::kDelta:
      return "delta";
    case OpCode::kEvaluate:
      return "evaluate";
  }
  return "unknown";
}

}  // namespace soapstone::worker
