#include "worker/pulls.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

namespace soapstone::worker {
namespace {

constexpr size_t kLagBuckets = 64;

void CountLag(Clock lag, std::vector<uint64_t>* lags) {
  const size_t slot =
      std::min<size_t>(static_cast<size_t>(std::max<Clock>(lag, 0)), kLagBuckets - 1);
  if (lags->size() <= slot) lags->resize(slot + 1);
  ++(*lags)[slot];
}

}  // namespace

Pulls::Pulls(std::shared_ptr<const EngineOptions> options)
    : options_(std::move(options)),
      values_(options_->layout->shard_count()),
      oldest_(options_->layout->shard_count()) {}

void Pulls::Begin(Nanos now, bool unasked) {
  unasked_ = unasked;
  idle_since_ = now;
}

void Pulls::End() {
  unasked_ = loaded_ = false;
  DropValues();
  std::fill(oldest_.begin(), oldest_.end(), 0);
  loads_ = 0;
  idle_since_ = -1;
  parked_ns_ = queued_ns_ = 0;
}

void Pulls::OnDue(Nanos now) {
  // Of pulls that are sent in turn the first one's time, which Begin has set, counts.
  if (!options_->policy.ordered_reads()) idle_since_ = now;
}

bool Pulls::IsComing(const ProgramRun& run, ShardId shard) const {
  if (unasked_) return true;
  return !run.final() && Index(shard) < ahead_.size() && ahead_[Index(shard)] == run.read_clock();
}

bool Pulls::TakeEarly(ShardId shard, Clock clock, wire::Progress* progress) {
  if (Index(shard) >= early_.size() || early_[Index(shard)].clock != clock) return false;
  Take(shard, early_[Index(shard)], progress);
  early_[Index(shard)] = {};
  return true;
}

void Pulls::OnAskedAhead(ShardId shard, Clock clock) {
  ahead_.resize(options_->layout->shard_count(), kNoClock);
  ahead_[Index(shard)] = clock;
}

Clock Pulls::asked_ahead() const {
  return ahead_.empty() ? kNoClock : *std::max_element(ahead_.begin(), ahead_.end());
}

bool Pulls::KeepEarly(ShardId shard, Clock next, const wire::Message& reply) {
  const bool asked = Index(shard) < ahead_.size() && ahead_[Index(shard)] == reply.clock;
  if (!asked && !options_->policy.subscribed()) return false;
  if (wire::As<wire::PullReply>(reply).final || reply.clock != next) return false;
  early_.resize(options_->layout->shard_count());
  early_[Index(shard)] = reply;
  return true;
}

void Pulls::Take(ShardId shard, const wire::Message& reply, wire::Progress* progress) {
  const auto& body = wire::As<wire::PullReply>(reply);
  values_[Index(shard)] = reply.payload;
  oldest_[Index(shard)] = body.oldest;
  if (!options_->policy.ordered_reads()) parked_ns_ = queued_ns_ = 0;
  parked_ns_ += body.parked_ns;
  queued_ns_ += body.queued_ns;
  progress->pulled_bytes += reply.payload_bytes();
}

bool Pulls::IsFresher(ShardId shard, const wire::Message& reply) const {
  return unasked_ && !loaded_ && wire::As<wire::PullReply>(reply).oldest > oldest_[Index(shard)];
}

bool Pulls::HasRowsAskedFor(const ProgramRun& run, ShardId shard,
                            const wire::Message& reply) const {
  const std::vector<TableSpec>& tables = options_->layout->tables();
  const std::span<const Buffer> asked = run.KeysOf(shard);
  const size_t first = reply.payload.empty() ? 0 : reply.payload.size() - tables.size();
  for (size_t t = 0; t < tables.size(); ++t) {
    const size_t keys = t < asked.size() ? asked[t].size() / sizeof(uint64_t) : 0;
    const Buffer rows = reply.payload.empty() ? Buffer() : reply.payload[first + t];
    if (rows.size() != keys * tables[t].dim * sizeof(float) || !rows.IsFloatAligned()) return false;
  }
  return true;
}

std::vector<Buffers> Pulls::ValuesOf(ShardId shard) const {
  std::vector<Buffers> values(values_.size());
  values[Index(shard)] = values_[Index(shard)];
  return values;
}

// What shards say of their part can be more than we waited: values may be due before they are
// asked, and asked before they are waited for.
void Pulls::CountWait(Nanos now, wire::Progress* progress) {
  if (idle_since_ < 0) return;
  const Nanos blocked = now - std::exchange(idle_since_, -1);
  const Nanos parked = std::min(parked_ns_, blocked);
  progress->blocked_ns += blocked;
  progress->parked_ns += parked;
  progress->queued_ns += std::min(queued_ns_, blocked - parked);
}

bool Pulls::OnLoad(Nanos now, const ProgramRun& run, wire::Progress* progress) {
  CountWait(now, progress);
  if (++loads_ < run.program().loads) return false;
  loaded_ = true;
  for (const Clock oldest : oldest_) {
    if (!run.final()) CountLag(run.read_clock() - oldest, &progress->read_lags);
  }
  return true;
}

std::vector<Buffers> Pulls::TakeValues() {
  return std::exchange(values_, std::vector<Buffers>(values_.size()));
}

void Pulls::DropValues() { std::fill(values_.begin(), values_.end(), Buffers()); }

void Pulls::Rewind() {
  loads_ = 0;
  idle_since_ = -1;
}

void Pulls::AddTo(Fingerprint* f) const {
  f->Add(early_.size());
  for (const wire::Message& early : early_) {
    const auto* reply = std::get_if<wire::PullReply>(&early.body);
    f->Add(early.clock);
    f->Add(reply != nullptr ? reply->oldest : kNoClock);  // none is here yet
  }
  for (const Clock asked : ahead_) f->Add(asked);
  for (const Clock oldest : oldest_) f->Add(oldest);
  f->Add(loads_);
  f->Add(loaded_);
}

}  // namespace soapstone::worker
