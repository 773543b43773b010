#include "server/shard/seen_pushes.h"

#include <algorithm>
#include <utility>

namespace soapstone::server {

using wire::Message;

SeenPushes::OfWorker& SeenPushes::Of(WorkerId worker) {
  if (Index(worker) >= workers_.size()) workers_.resize(Index(worker) + 1);
  return workers_[Index(worker)];
}

SeenPushes::Memory SeenPushes::Remember(const Message& push) {
  OfWorker& seen = Of(push.worker);
  if (push.clock < seen.clock) return Memory::kSeenBefore;
  if (push.clock > seen.clock) {
    seen.clock = push.clock;
    seen.pushes.clear();
    seen.digest = 0;
  }
  const auto& body = wire::As<wire::Push>(push);
  const Key key = {body.bucket, body.micro_batches};
  if (seen.pushes.contains(key)) return Memory::kSeenBefore;
  if (seen.pushes.size() >= pushes_max_) return Memory::kFull;
  seen.pushes.insert(key);
  newest_ = std::max(newest_, push.clock);
  Fingerprint digest;
  digest.Add(key.bucket);
  digest.Add(key.micro_batches.begin);
  digest.Add(key.micro_batches.end);
  seen.digest += digest.value().first;
  return Memory::kNew;
}

bool SeenPushes::Covers(const Message& clock) {
  OfWorker& seen = Of(clock.worker);
  const size_t here = seen.clock == clock.clock - 1 ? seen.pushes.size() : 0;
  // Where the worker has gone on, what is missing would not be taken any more.
  if (seen.clock >= clock.clock || here >= wire::As<wire::Completion>(clock).pushes) return true;
  seen.waiting = clock;
  return false;
}

std::optional<Message> SeenPushes::TakeWaiting(WorkerId worker) {
  OfWorker& seen = Of(worker);
  if (!seen.waiting.has_value()) return std::nullopt;
  return std::exchange(seen.waiting, std::nullopt);
}

void SeenPushes::Forget(WorkerId worker) { Of(worker) = {}; }

void SeenPushes::AddTo(Fingerprint* f) const {
  for (uint32_t w = 0; w < workers_.size(); ++w) {
    const OfWorker& seen = workers_[w];
    if (seen.clock == kNoClock && !seen.waiting.has_value()) continue;  // nothing is known of it
    f->Add(w);
    f->Add(seen.clock);
    f->Add(seen.waiting.has_value() ? seen.waiting->clock : kNoClock);
    f->Add(seen.waiting.has_value() ? wire::As<wire::Completion>(*seen.waiting).pushes : 0);
    f->Add(seen.pushes.size());
    f->Add(seen.digest);
  }
}

}  // namespace soapstone::server
