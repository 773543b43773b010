// Engine's watch (worker/engine.h, invariant 5): values that do not come are asked for again.
#include <algorithm>
#include <utility>

#include "worker/engine.h"

namespace soapstone::worker {

using wire::Message;

bool Engine::waits() const {
  for (uint32_t k = 0; main_.has_value() && k < main_->pulled.size(); ++k) {
    if (IsOutstanding(*main_, ShardId{k})) return true;
  }
  return false;
}

// One timer at a time, and none that is moved at each pull: setting it costs a loop its deadline.
void Engine::NotePull(Nanos now, Run* run, ShardId shard, EngineOutput out) {
  run->pulled[Index(shard)] = {.first = now, .last = now};
  if (std::exchange(watching_, true)) return;
  out.outbox->SetTimer(kWatch, now + options_.patience_ns);
}

// Until it is asked for again: longer where answers take long, and each time twice as long, to an
// end. A repeated answer goes the same way as the first, and what comes next stands behind both.
Nanos Engine::PatienceWith(const Run::Pulled& pulled) const {
  const Nanos most = kPatienceGrowth * options_.patience_ns;
  Nanos patience = std::max(options_.patience_ns, 2 * std::min(answer_ns_, most));
  for (uint32_t i = 0; i < pulled.asked && patience < most; ++i) patience *= 2;
  return std::min(patience, most);
}

void Engine::OnTimer(Nanos now, EngineOutput out) {
  watching_ = false;
  if (!main_.has_value()) return;
  Run& run = *main_;
  std::optional<Nanos> next;
  for (uint32_t k = 0; k < run.pulled.size(); ++k) {
    if (!IsOutstanding(run, ShardId{k})) continue;
    Run::Pulled& pulled = run.pulled[k];
    if (now - pulled.last >= PatienceWith(pulled)) {
      PullAgain(&run, ShardId{k}, out);
      pulled.last = now;
      ++pulled.asked;
    }
    const Nanos due = pulled.last + PatienceWith(pulled);
    next = std::min(next.value_or(due), due);
  }
  if (!next.has_value()) return;
  watching_ = true;
  out.outbox->SetTimer(kWatch, *next);
}

wire::Progress Engine::ProgressAt(Nanos now) const {
  wire::Progress progress = progress_;
  const size_t shards = main_.has_value() ? main_->pulled.size() : 0;
  for (uint32_t k = 0; k < shards; ++k) {
    const Run::Pulled& pulled = main_->pulled[k];
    const Nanos for_ns = now - pulled.first;
    if (!IsOutstanding(*main_, ShardId{k}) || for_ns < options_.patience_ns) continue;
    if (progress.waiting.has_value() && progress.waiting->for_ns >= for_ns) continue;
    progress.waiting = wire::Waiting{.of = HomeOf(ShardId{k}),
                                     .clock = main_->shard_clock,
                                     .for_ns = for_ns,
                                     .asked = pulled.asked};
  }
  return progress;
}

// Under the elastic rule the first exchange's values have the clock of those before the first step:
// answers to what was asked for again then must not pass for them.
bool Engine::IsSurplus(const Run& run, const Message& reply) {
  const uint32_t shard = reply.from.index;
  if (run.program().kind != Program::Kind::kExchange || reply.final) return false;
  if (reply.clock != surplus_clock_ || shard >= surplus_.size() || surplus_[shard] == 0) {
    return false;
  }
  --surplus_[shard];
  return true;
}

}  // namespace soapstone::worker
