#include "sim/world/world_cut.h"

#include "absl/strings/str_cat.h"
#include "server/store/count_store.h"
#include "sim/world/scripted_device.h"

namespace soapstone::sim {
namespace {

using wire::Message;
using wire::MessageType;

uint64_t NotTakenBy(const server::Shard& shard) {
  const server::ShardStats& stats = shard.stats();
  return stats.duplicates + stats.rejects + stats.left_out;
}

}  // namespace

// Where a round is its own marker an order may come too late.
WorldCut::WorldCut(const WorldCutOptions& options)
    : options_(options),
      shards_(options.shards),
      excused_(options.by_rounds && options.kind == CutKind::kCheckpoints) {}

void WorldCut::Begin() {
  scheduler::CheckpointOptions orders = {
      .every = 1, .end = options_.clocks, .aligned = !options_.by_rounds};
  if (options_.kind == CutKind::kEnd) orders.every = options_.clocks;  // none before
  for (uint32_t k = 0; k < options_.shards; ++k) orders.shards.push_back(ShardId{k});
  orders_.emplace(std::move(orders));
  if (options_.kind == CutKind::kEnd) orders_->End();
}

bool WorldCut::IsOf(const Message& message) {
  return message.type == MessageType::kBound || message.type == MessageType::kBounded ||
         message.type == MessageType::kCheckpoint || message.type == MessageType::kCaptured ||
         message.type == MessageType::kWritten;
}

void WorldCut::OnMessage(Message message) {
  if (!orders_.has_value()) return;
  const bool lies = options_.mutant == WorldMutant::kBeginsThoughBound ||
                    options_.mutant == WorldMutant::kBeginsUnseen;
  if (lies && message.type == MessageType::kBounded) {
    message.clock = orders_->bound().asked().value_or(message.clock);
  }
  orders_->OnMessage(now_, message);
}

void WorldCut::Look(Nanos now, const wire::Roster& roster, bool running, wire::Outbox* out) {
  now_ = now;
  if (!orders_.has_value()) return;
  if (!running) orders_->Stop();
  if (const auto whole = orders_->TakeWhole(); whole.has_value()) {
    orders_->OnCommitted(now, whole->clock, "");
  }
  orders_->Look(now, 0, roster, out);
  if (ended_at().has_value() && !violation_.has_value()) CheckEnd(*ended_at());
  const std::vector<Clock> given_up = orders_->TakeGivenUp();
  if (!given_up.empty() && !excused_ && !violation_.has_value()) {
    violation_ = absl::StrCat("C2: the cut of clock ", given_up[0], " is given up");
  }
}

std::optional<Clock> WorldCut::ended_at() const {
  return orders_.has_value() ? orders_->ended_at() : std::nullopt;
}

void WorldCut::Before(const server::Shard& shard, const Message& message) {
  push_.reset();
  if (options_.kind == CutKind::kNone) return;
  not_taken_ = NotTakenBy(shard);
  if (message.type == MessageType::kPush) push_ = message;
  if (message.type == MessageType::kCheckpoint) {
    shards_[Index(shard.id())].order.Take(message.clock);
  }
}

void WorldCut::After(const server::Shard& shard, wire::Outbox* out) {
  if (options_.kind == CutKind::kNone) return;
  OfShard& own = shards_[Index(shard.id())];
  if (push_.has_value() && NotTakenBy(shard) == not_taken_) {
    own.taken[{wire::As<wire::Push>(*push_).bucket, push_->clock}] +=
        server::CountedPartOf(push_->payload[0]).sum;
  }
  const bool blind = options_.by_rounds || options_.mutant == WorldMutant::kBeginsUnseen;
  Clock frontier = shard.policy().Frontier();
  if (options_.mutant == WorldMutant::kCapturesEarly) ++frontier;
  const std::optional<Clock> due = own.order.Look(frontier, blind ? kNoClock : shard.newest_push());
  const std::optional<Clock> missed = own.order.TakeMissed();
  if (!due.has_value() && !missed.has_value()) return;
  Message said;
  said.type = MessageType::kWritten;
  said.from = wire::Address::Of(shard.id());
  said.to = wire::Address::Scheduler();
  if (missed.has_value()) {
    said.body = wire::Written{.frontier = *missed};
    return out->Send(std::move(said));
  }
  ++captured_;
  Check(shard, *due);
  said.clock = *due;
  Message captured = said;
  captured.type = MessageType::kCaptured;
  out->Send(std::move(captured));
  said.body = wire::Written{.bytes = 1};
  out->Send(std::move(said));
}

int64_t WorldCut::DueAt(const server::Shard& shard, BucketId bucket, Clock clock) const {
  if (options_.all_micro_batches) {
    int64_t due = 0;
    for (uint32_t m = 0; m < options_.micro_batch_count; ++m) {
      due += MicroBatchDelta(clock, shard.id(), bucket, m);
    }
    return due;
  }
  const auto& taken = shards_[Index(shard.id())].taken;
  const auto at = taken.find({bucket, clock});
  return at == taken.end() ? 0 : at->second;
}

void WorldCut::Check(const server::Shard& shard, Clock clock) {
  const std::string where = absl::StrCat("C1: shard ", Index(shard.id()));
  if (shard.policy().clocks().Min() < clock && !options_.by_rounds) {
    violation_ = absl::StrCat(where, " is captured at clock ", clock, " before all are there");
  }
  if (options_.by_rounds && !options_.all_micro_batches) return;  // some are left out
  const auto& counts = shard.store().counts()->buckets();
  for (uint32_t b = 0; b < counts.size() && !violation_.has_value(); ++b) {
    int64_t due = 0;
    for (Clock c = 0; c < clock; ++c) due += DueAt(shard, BucketId{b}, c);
    if (counts[b].sum == due) continue;
    violation_ =
        absl::StrCat(where, " bucket ", b, " is captured at clock ", clock, " with other updates");
  }
}

void WorldCut::CheckEnd(Clock clock) {
  for (const OfShard& shard : shards_) {
    for (const auto& [at, sum] : shard.taken) {
      if (at.second < clock) continue;
      violation_ = absl::StrCat("C3: the job ends at clock ", clock, ", which has been begun");
    }
  }
}

void WorldCut::AddTo(Fingerprint* f) const {
  f->Add(orders_.has_value());
  if (orders_.has_value()) orders_->AddTo(f);
  for (const OfShard& shard : shards_) {
    shard.order.AddTo(f);
    f->Add(shard.taken.size());
    for (const auto& [at, sum] : shard.taken) {
      f->Add(at.first);
      f->Add(at.second);
      f->Add(sum);
    }
  }
  f->Add(excused_);
}

}  // namespace soapstone::sim
