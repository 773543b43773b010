#include "apps/node/shard_host.h"

#include <glog/logging.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/checkpoint/shard_restorer.h"
#include "apps/loop/cpu_placement.h"
#include "apps/node/curve_parts.h"
#include "base/exit_codes.h"
#include "base/memory/memory_limit.h"
#include "cluster/actor_options.h"
#include "cluster/replicas/replicas.h"
#include "wire/membership/chains.h"

namespace soapstone::apps {
namespace {

// An only shard is served by the loop where a pass over what its workers push and what it keeps is
// below this: some tens of milliseconds between looks at the timers. A larger one does not feel two
// hand-overs between threads.
constexpr uint64_t kLoopPassBytes = uint64_t{256} << 20;
// A shard is at one message for so long, and longer by what a pass over its values takes at this
// rate: it hangs.
constexpr Nanos kShardPatience = 60 * kSecond;
constexpr uint64_t kSlowestBytesPerSecond = 50'000'000;

// What a clock's pass over a shard touches: its values, their next version, a gradient a worker.
uint64_t PassBytes(const Job& job, ShardId shard) {
  return job.layout->elements(shard) * sizeof(float) * (2 + job.config.cluster().workers());
}

void AddLedger(const server::Shard& shard, NodeReport* report) {
  const std::vector<server::Ledger::Row>& rows = shard.ledger().rows();
  report->ledger.reserve(report->ledger.size() + rows.size());
  for (size_t worker = 0; worker < rows.size(); ++worker) {
    report->ledger.push_back({.worker = static_cast<uint32_t>(worker),
                              .shard = Index(shard.id()),
                              .read_lags = rows[worker].read_lags,
                              .stalenesses = rows[worker].stalenesses,
                              .violations = rows[worker].violations});
  }
}

}  // namespace

ShardHost::ShardHost(std::shared_ptr<const Job> job, MessageInbox* answers,
                     std::function<void()> wake)
    : job_(std::move(job)), answers_(answers), wake_(std::move(wake)) {}

void ShardHost::Start(uint32_t rank, uint64_t session, bool pin) {
  const ServerId self{rank};
  ids_ = wire::ShardsOn(self, PlacesOf(job_->config, job_->specs.policy));
  if (job_->checkpoint_every > 0) {
    parts_ = std::make_unique<PartWriter>(job_, session, [this](wire::Message written) {
      answers_->TryPut(std::move(written));
      wake_();
    });
  }
  for (size_t i = 0; i < ids_.size(); ++i) {
    const ShardId id = ids_[i];
    total_bytes_ += job_->layout->elements(id) * sizeof(float);
    patience_ = std::max(
        patience_, kShardPatience +
                       static_cast<Nanos>(PassBytes(*job_, id) / kSlowestBytesPerSecond * kSecond));
    shards_.push_back(std::make_unique<ShardThread>(
        [this, id, self](ShardProgress* progress) { return MakeReplica(id, self, progress); },
        answers_, wake_, OptionsOf(id, i, session, pin)));
  }
}

ShardThreadOptions ShardHost::OptionsOf(ShardId id, size_t place, uint64_t session, bool pin) {
  // Of a team's shards many have no parameters, and nobody speaks to them.
  const bool idle = job_->team != nullptr && job_->layout->elements(id) == 0;
  // One that has rows written down may have to wait for the disk.
  const bool rows_captured = parts_ != nullptr && job_->tables != nullptr;
  // A small one's replicas are on the loop's as well: an answer waits for both ends of a chain.
  const bool several = job_->config.cluster().shards_per_server() > 1;
  const bool own_thread =
      (several && !idle) || rows_captured || PassBytes(*job_, id) > kLoopPassBytes;
  std::optional<server::SnapshotTaker> taker;
  const bool of_model = Index(id) < job_->layout->shard_count();
  if (of_model && !job_->config.output().curve_path().empty()) taker.emplace(job_->curve_step);
  std::optional<int> cpu;
  if (pin && own_thread) cpu = CpuInTurn(static_cast<uint32_t>(place));
  if (pin && !own_thread) StayOn(CpuInTurn(0));
  return {.strict = job_->config.strict(),
          .taker = taker,
          .captures = CapturesOf(),
          .recorder = OpenRecorder(id, session),
          .events =
              idle ? nullptr : OpenEvents(*job_, timeline::ThreadKind::kShard, Index(id), session),
          .own_thread = own_thread,
          .cpu = cpu};
}

std::unique_ptr<server::Replica> ShardHost::MakeReplica(ShardId id, ServerId self,
                                                        ShardProgress* progress) {
  server::TensorStoreOptions store = cluster::StoreOptionsOf(*job_, id);
  store.initialised = [progress](uint64_t bytes) {
    progress->done_bytes += bytes;
    return progress->wanted.load();
  };
  server::ShardOptions options = cluster::ShardOptionsOf(*job_, id);
  options.held_bytes_max = MemoryLimit() / 2;
  server::Store made(store);
  const absl::Status restored = RestoreShard(*job_, id, &made);
  if (!restored.ok()) {
    progress->wanted = false;  // it is told to nobody that it is made
    {
      const MutexLock lock(&mutex_);
      not_made_ = std::string(restored.message());
    }
    wake_();
  }
  return std::make_unique<server::Replica>(
      server::ReplicaOptions{.self = self,
                             .chained = job_->replicas > 1,
                             .early_bytes_max = MemoryLimit() / 8 / ids_.size()},
      server::Shard(std::move(options), std::move(made)));
}

CaptureSink ShardHost::CapturesOf() {
  if (parts_ == nullptr) return nullptr;
  return [parts = parts_.get()](ShardId shard, server::Capture capture) {
    parts->Write(shard, std::move(capture));
  };
}

std::unique_ptr<Recorder> ShardHost::OpenRecorder(ShardId id, uint64_t session) {
  absl::StatusOr<std::unique_ptr<Recorder>> recorder =
      Recorder::Open(*job_, wire::Address::Of(id), session);
  if (recorder.ok()) return *std::move(recorder);
  Fail(kExitConfig, std::string(recorder.status().message()));
  return nullptr;
}

void ShardHost::Fail(int code, std::string text) {
  if (!failure_.has_value()) failure_ = {code, std::move(text)};
}

void ShardHost::Put(Nanos now, wire::Message message) {
  uint32_t index = message.to.index;
  if (const auto* record = std::get_if<wire::Record>(&message.body)) index = record->shard;
  if (const auto* word = std::get_if<wire::Recorded>(&message.body)) index = word->shard;
  const auto at = std::ranges::lower_bound(ids_, ShardId{index});
  if (at == ids_.end() || *at != ShardId{index}) {
    LOG_EVERY_N(WARNING, 1000) << "not a shard of this server: " << wire::ToString(message);
    return;
  }
  PutTo(now, at - ids_.begin(), std::move(message));
}

void ShardHost::PutToAll(Nanos now, const wire::Message& roster) {
  for (size_t place = 0; place < shards_.size(); ++place) PutTo(now, place, roster);
}

void ShardHost::PutTo(Nanos now, size_t place, wire::Message message) {
  ShardThread* shard = shards_[place].get();
  if (shard->Put(now, std::move(message)) || shard->broken()) return;
  Fail(kExitInternal, absl::StrCat("shard ", Index(ids_[place]),
                                   " takes no more messages, and is at ", shard->WhatItDoes()));
}

void ShardHost::Look(Nanos now) {
  {
    const MutexLock lock(&mutex_);
    if (not_made_.has_value()) Fail(kExitConfig, *not_made_);
  }
  for (size_t i = 0; i < shards_.size(); ++i) {
    ShardThread* shard = shards_[i].get();
    shard->Look(now);
    if (const Nanos busy = shard->BusyFor(now); busy > patience_) {
      Fail(kExitInternal, absl::StrCat("shard ", Index(ids_[i]), " hangs: for ", busy / kSecond,
                                       " s it has been at ", shard->WhatItDoes()));
    }
    if (!shard->broken() || failure_.has_value()) continue;
    const server::Replica& replica = shard->Join();
    if (replica.failure().has_value()) {
      Fail(kExitInternal, *replica.failure());
      continue;
    }
    const server::Ledger& ledger = replica.shard().ledger();
    Fail(kExitBroken, absl::StrCat(job_->specs.policy.spec,
                                   " broke its guarantee: ", ledger.first_violation()->ToString()));
  }
}

bool ShardHost::behind() const {
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const auto& shard) { return shard->behind(); });
}

std::optional<wire::SlowWork> ShardHost::work() const {
  const bool all =
      std::all_of(shards_.begin(), shards_.end(), [](const auto& shard) { return shard->made(); });
  if (all) return std::nullopt;
  wire::SlowWork work{.total_bytes = total_bytes_};
  for (const auto& shard : shards_) work.done_bytes += shard->made_bytes();
  return work;
}

std::vector<ShardStatus> ShardHost::AskStatus() {
  std::vector<ShardStatus> all;
  for (const std::unique_ptr<ShardThread>& shard : shards_) {
    const std::shared_ptr<const ShardStatus> status = shard->AskStatus();
    if (status != nullptr) all.push_back(*status);
  }
  return all;
}

void ShardHost::Join() {
  for (const std::unique_ptr<ShardThread>& shard : shards_) shard->Join();
  parts_.reset();  // nobody has it write any more
}

void ShardHost::AddTo(NodeReport* report) const {
  for (const std::unique_ptr<ShardThread>& thread : shards_) {
    const server::Replica& replica = thread->Join();
    if (!replica.is_head()) continue;  // its head's server reports the shard
    const server::Shard& shard = replica.shard();
    report->rejects += shard.stats().rejects;
    report->duplicates += shard.stats().duplicates;
    report->left_out += shard.stats().left_out;
    AddLedger(shard, report);
    AddViolations(shard.ledger().violations(), absl::StrCat("shard ", Index(shard.id())), report);
  }
  const uint64_t violations = CountOf(report->violations);
  if (violations == 0) return;
  LOG(ERROR) << "the guarantee of " << job_->specs.policy.spec << " was broken " << violations
             << " times";
}

void ShardHost::WriteCurve() const {
  const std::string& path = job_->config.output().curve_path();
  if (path.empty()) return;
  for (const std::unique_ptr<ShardThread>& thread : shards_) {
    const server::Replica& replica = thread->Join();
    const ShardId id = replica.shard().id();
    if (!replica.is_head() || Index(id) >= job_->layout->shard_count() || !thread->made()) continue;
    if (job_->layout->elements(id) == 0) continue;
    const absl::Status written = WriteShardPart(path, id, thread->TakeSnapshots());
    LOG_IF(ERROR, !written.ok()) << written.message();
  }
}

}  // namespace soapstone::apps
