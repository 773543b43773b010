#include "worker/device/command_watch.h"

#include <algorithm>
#include <iterator>
#include <variant>

namespace soapstone::worker {
namespace {

constexpr int64_t kSlowMedians = 8, kHungMedians = 32;
constexpr int64_t kMissedLooks = 4;  // a busy machine makes one late, not so many
constexpr int64_t kHungFloors = 4, kHungFloorsUnknown = 12;

struct Kinds {
  WorkKind operator()(const FindKeys&) const { return {"keys", {}}; }
  WorkKind operator()(const LoadCommand&) const { return {"load", {}}; }
  WorkKind operator()(const RunForward& forward) const { return {"forward", forward.op}; }
  WorkKind operator()(const RunBackward& backward) const { return {"backward", backward.op}; }
  WorkKind operator()(const CollectBucket&) const { return {"collect", {}}; }
  WorkKind operator()(const UpdateLocally&) const { return {"update", {}}; }
  WorkKind operator()(const ElasticCommand&) const { return {"elastic", {}}; }
  WorkKind operator()(const TakeDelta&) const { return {"delta", {}}; }
  WorkKind operator()(const EvaluateModel&) const { return {"evaluate", {}}; }
  WorkKind operator()(const BeginBatch&) const { return {"begin", {}}; }
  WorkKind operator()(const RunSection& run) const { return {"section", run.first}; }
  WorkKind operator()(const TakeCommand&) const { return {"take", {}}; }
  WorkKind operator()(const GiveBlock&) const { return {"give", {}}; }
};

}  // namespace

WorkKind KindOf(const DeviceWork& work) { return std::visit(Kinds{}, work); }

void CommandWatch::Begin(Nanos now, const DeviceWork& work) {
  in_hand_ = InHand{KindOf(work), std::holds_alternative<EvaluateModel>(work)};
  since_ = now;
  left_out_ns_ = 0;
  said_slow_ = false;
}

void CommandWatch::End(Nanos now) {
  if (in_hand_.has_value()) {
    Durations& durations = before_[in_hand_->kind];
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

Nanos CommandWatch::MedianOf(const WorkKind& kind) const {
  const auto found = before_.find(kind);
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
    overdue.what = in_hand_->kind;
    overdue.median_ns = MedianOf(in_hand_->kind);
  }
  const Nanos median = std::max<Nanos>(overdue.median_ns, 0);
  const Nanos floors =
      (overdue.taken && overdue.median_ns < 0 ? kHungFloorsUnknown : kHungFloors) * floor_ns_;
  overdue.hung = overdue.for_ns > std::max(floors, kHungMedians * median) &&
                 !(overdue.taken && in_hand_->evaluates);
  if (overdue.hung) return overdue;
  if (overdue.for_ns <= std::max(floor_ns_, kSlowMedians * median) || said_slow_) {
    return std::nullopt;
  }
  said_slow_ = true;
  return overdue;
}

}  // namespace soapstone::worker
