#include "consistency/gates/sampled_gate.h"

#include <algorithm>

#include "base/random.h"
#include "consistency/gates/arrival_order.h"

namespace soapstone::consistency {
namespace {

CounterRandom RandomOf(uint64_t seed, WorkerId reader, Clock clock) {
  return CounterRandom(seed, RandomUse::kBarrier,
                       uint64_t{Index(reader)} << 40 ^ static_cast<uint64_t>(clock));
}

}  // namespace

Actions SampledGate::OnJoin(WorkerId worker, Clock clock) {
  clocks_.Set(worker, clock);
  return ReleaseAdmitted();
}

Actions SampledGate::OnLeave(WorkerId worker) {
  clocks_.Remove(worker);
  std::erase_if(parked_, [&](const auto& entry) { return entry.first.second == worker; });
  return ReleaseAdmitted();
}

Actions SampledGate::OnPush(const PushEvent& push) {
  return {{OutOfOrder(clocks_, push).value_or(ActionKind::kApply), push.ticket}};
}

Actions SampledGate::OnClock(const ClockEvent& event) {
  if (event.completed <= clocks_.Of(event.worker)) return {};
  clocks_.Set(event.worker, event.completed);
  return ReleaseAdmitted();
}

Actions SampledGate::OnPull(const PullEvent& pull) {
  std::vector<WorkerId> peers = Draw(pull.worker, pull.clock);
  const bool blocks =
      !Admits(pull.clock, peers) &&
      (sample_ > 0 || RandomOf(seed_, pull.worker, pull.clock).Uniform(0) < block_probability_);
  if (!blocks) return {{ActionKind::kReply, pull.ticket}};
  parked_.insert_or_assign({pull.clock, pull.worker}, Parked{pull.ticket, std::move(peers)});
  return {{ActionKind::kPark, pull.ticket}};
}

// `sample_` other members, ascending; empty where that is all of them, or pssp.
std::vector<WorkerId> SampledGate::Draw(WorkerId reader, Clock clock) const {
  std::vector<WorkerId> peers;
  if (sample_ == 0 || clocks_.members() <= size_t{sample_} + 1) return peers;
  const CounterRandom random = RandomOf(seed_, reader, clock);
  for (uint64_t i = 0; peers.size() < sample_; ++i) {
    const WorkerId peer{static_cast<uint32_t>(random.Below(i, clocks_.ranks()))};
    if (peer == reader || !clocks_.Contains(peer)) continue;
    const auto at = std::lower_bound(peers.begin(), peers.end(), peer);
    if (at == peers.end() || *at != peer) peers.insert(at, peer);
  }
  return peers;
}

bool SampledGate::Admits(Clock clock, const std::vector<WorkerId>& peers) const {
  if (peers.empty()) return clocks_.Min() >= clock - bound_;
  return std::all_of(peers.begin(), peers.end(), [&](WorkerId peer) {
    return !clocks_.Contains(peer) || clocks_.Of(peer) >= clock - bound_;
  });
}

Actions SampledGate::ReleaseAdmitted() {
  Actions actions;
  for (auto it = parked_.begin(); it != parked_.end();) {
    if (!Admits(it->first.first, it->second.peers)) {
      ++it;
      continue;
    }
    actions.push_back({ActionKind::kReply, it->second.ticket});
    it = parked_.erase(it);
  }
  return actions;
}

void SampledGate::AddTo(Fingerprint* f) const {
  clocks_.AddTo(f);
  f->Add(parked_.size());
  for (const auto& [key, parked] : parked_) {
    f->Add(key.first);
    f->Add(key.second);
    f->Add(parked.peers.size());
    for (WorkerId peer : parked.peers) f->Add(peer);
  }
}

}  // namespace soapstone::consistency
