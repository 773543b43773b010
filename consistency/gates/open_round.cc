#include "consistency/gates/open_round.h"

namespace soapstone::consistency {

ActionKind HeldPushes::Add(const PushEvent& push, Actions* replaced) {
  if (Index(push.bucket) >= buckets_.size()) return ActionKind::kReject;
  auto& held = buckets_[Index(push.bucket)];
  auto first = std::partition_point(held.begin(), held.end(), [&](const HeldPush& h) {
    return h.micro_batches.end <= push.micro_batches.begin;
  });
  const auto last = std::partition_point(first, held.end(), [&](const HeldPush& h) {
    return h.micro_batches.begin < push.micro_batches.end;
  });
  if (first != last) {
    const bool within = first->micro_batches.begin >= push.micro_batches.begin &&
                        std::prev(last)->micro_batches.end <= push.micro_batches.end;
    uint32_t here = 0;
    for (auto it = first; it != last; ++it) here += it->micro_batches.size();
    if (replaced == nullptr || !within || here == push.micro_batches.size())
      return ActionKind::kDrop;
    for (auto it = first; it != last; ++it) replaced->push_back({ActionKind::kDrop, it->ticket});
    first = held.erase(first, last);
  }
  held.insert(first, HeldPush{push.micro_batches, push.worker, push.ticket});
  return ActionKind::kHold;
}

void HeldPushes::Release(ActionKind kind, Actions* actions) {
  for (auto& held : buckets_) {
    for (const HeldPush& h : held) actions->push_back({kind, h.ticket});
    held.clear();
  }
}

void HeldPushes::AddTo(Fingerprint* f) const {
  for (const auto& held : buckets_) {
    f->Add(held.size());
    for (const HeldPush& h : held) {
      f->Add(h.micro_batches.begin);
      f->Add(h.micro_batches.end);
      f->Add(h.worker);
    }
  }
}

void ParkedPulls::Release(Clock version, Actions* actions) {
  for (auto it = pulls_.begin(); it != pulls_.end();) {
    if (it->second.first > version) {
      ++it;
      continue;
    }
    actions->push_back({ActionKind::kReply, it->second.second});
    it = pulls_.erase(it);
  }
}

void ParkedPulls::AddTo(Fingerprint* f) const {
  f->Add(pulls_.size());
  for (const auto& [worker, pull] : pulls_) {
    f->Add(worker);
    f->Add(pull.first);
  }
}

}  // namespace soapstone::consistency
