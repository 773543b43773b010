#include "consistency/open_round.h"

namespace soapstone::consistency {

ActionKind HeldPushes::Add(const PushEvent& push) {
  if (Index(push.bucket) >= buckets_.size()) return ActionKind::kReject;
  auto& held = buckets_[Index(push.bucket)];
  const auto after = std::find_if(held.begin(), held.end(), [&](const HeldPush& h) {
    return h.leaves.end > push.leaves.begin;
  });
  if (after != held.end() && after->leaves.begin < push.leaves.end) return ActionKind::kDrop;
  held.insert(after, HeldPush{push.leaves, push.worker, push.ticket});
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
      f->Add(h.leaves.begin);
      f->Add(h.leaves.end);
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
