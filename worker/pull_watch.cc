#include "worker/pull_watch.h"

#include <algorithm>
#include <utility>

namespace soapstone::worker {

void PullWatch::OnRunBegun() { std::fill(asked_.begin(), asked_.end(), Asked{}); }

void PullWatch::OnRunEnded(Clock clock) {
  surplus_clock_ = clock;
  surplus_.clear();
  for (const Asked& asked : asked_) surplus_.push_back(asked.again);
}

std::optional<Nanos> PullWatch::OnAsked(Nanos now, ShardId shard) {
  asked_[Index(shard)] = {.first = now, .last = now};
  if (std::exchange(timer_set_, true)) return std::nullopt;
  return now + patience_ns_;
}

// What answers take lately counts, so that a slow way is not filled with repetitions.
void PullWatch::OnAnswered(Nanos now, ShardId shard) {
  answer_ns_ = std::max(now - asked_[Index(shard)].first, answer_ns_ - answer_ns_ / 4);
}

// A repeated answer goes the same way as the first, and what comes next stands behind both.
Nanos PullWatch::PatienceWith(const Asked& asked) const {
  const Nanos most = kGrowth * patience_ns_;
  Nanos patience = std::max(patience_ns_, 2 * std::min(answer_ns_, most));
  for (uint32_t i = 0; i < asked.again && patience < most; ++i) patience *= 2;
  return std::min(patience, most);
}

PullWatch::Repeats PullWatch::OnTimer(Nanos now, const ProgramRun* run) {
  timer_set_ = false;
  Repeats repeats;
  if (run == nullptr) return repeats;
  for (uint32_t k = 0; k < asked_.size(); ++k) {
    if (!run->IsOutstanding(ShardId{k})) continue;
    Asked& asked = asked_[k];
    if (now - asked.last >= PatienceWith(asked)) {
      repeats.shards.push_back(ShardId{k});
      asked.last = now;
      ++asked.again;
    }
    const Nanos due = asked.last + PatienceWith(asked);
    repeats.timer = std::min(repeats.timer.value_or(due), due);
  }
  timer_set_ = repeats.timer.has_value();
  return repeats;
}

std::optional<PullWatch::Wait> PullWatch::Longest(Nanos now, const ProgramRun& run) const {
  std::optional<Wait> longest;
  for (uint32_t k = 0; k < asked_.size(); ++k) {
    const Nanos for_ns = now - asked_[k].first;
    if (!run.IsOutstanding(ShardId{k}) || for_ns < patience_ns_) continue;
    if (longest.has_value() && longest->for_ns >= for_ns) continue;
    longest = Wait{.shard = ShardId{k}, .for_ns = for_ns, .asked = asked_[k].again};
  }
  return longest;
}

bool PullWatch::TakeSurplus(const ProgramRun& run, ShardId shard, const wire::Message& reply) {
  if (run.program().kind != Program::Kind::kExchange || wire::As<wire::PullReply>(reply).final)
    return false;
  if (reply.clock != surplus_clock_ || Index(shard) >= surplus_.size()) return false;
  if (surplus_[Index(shard)] == 0) return false;
  --surplus_[Index(shard)];
  return true;
}

void PullWatch::AddTo(Fingerprint* f) const {
  f->Add(answer_ns_);
  const bool any = std::any_of(surplus_.begin(), surplus_.end(), [](uint32_t n) { return n > 0; });
  f->Add(any ? surplus_clock_ : kNoClock);
  for (const uint32_t answers : surplus_) {
    if (any) f->Add(answers);
  }
}

}  // namespace soapstone::worker
