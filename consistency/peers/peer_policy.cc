#include "consistency/peers/peer_policy.h"

#include <algorithm>
#include <utility>

namespace soapstone::consistency {

using Kind = PeerActionKind;

PeerPolicy::Exchange PeerPolicy::MakeExchange(const PolicyTraits& traits) {
  struct Maker {
    Exchange operator()(const CollectiveTraits& how) const { return Collective(how); }
    Exchange operator()(const MixingTraits& how) const { return Mixing(how); }
    Exchange operator()(const PushSumTraits& how) const { return PushSum(how); }
    Exchange operator()(const PairwiseTraits& how) const { return Pairwise(how); }
  };
  return std::visit(Maker{}, traits.peers());
}

PeerPolicy::PeerPolicy(const PolicyTraits& traits, WorkerId self, bool has_values, Clock total,
                       std::vector<ElementRange> stretches)
    : seat_{.members = {self},
            .self = self,
            .total = total,
            .elements = stretches.back().end,
            .stretches = std::move(stretches)},
      exchange_(MakeExchange(traits)),
      has_values_(has_values) {}

bool PeerPolicy::lock_step() const {
  return std::visit([](const auto& exchange) { return exchange.kLockStep; }, exchange_);
}

double PeerPolicy::weight() const {
  return std::visit([](const auto& exchange) { return exchange.weight(); }, exchange_);
}

bool PeerPolicy::Finished() const {
  return has_values_ &&
         std::visit([&](const auto& exchange) { return exchange.Finished(seat_); }, exchange_);
}

void PeerPolicy::SeatReachable() {
  seat_.members.clear();
  for (const GroupMember& member : group_) {
    const auto known = reachable_.find(member.worker);
    const bool reachable = known != reachable_.end() && known->second == member.admitted;
    if (member.worker == seat_.self) seat_.me = seat_.members.size();
    if (member.worker == seat_.self || reachable) seat_.members.push_back(member.worker);
  }
}

PeerActions PeerPolicy::OnGroup(std::vector<GroupMember> members) {
  group_ = std::move(members);
  SeatReachable();
  standings_.clear();
  finished_.clear();
  told_finished_ = false;
  rallying_ = true;
  if (lock_step()) {
    std::visit([](auto& exchange) { exchange.Abort(); }, exchange_);
    for (const Parcel& parcel : held_) seat_.Do({.kind = Kind::kForget, .ticket = parcel.ticket});
    held_.clear();
    running_ = false;
  } else {
    running_ = has_run_ && has_values_;
    if (running_) std::visit([&](auto& exchange) { exchange.Resume(&seat_, false); }, exchange_);
  }
  standings_[seat_.self] = standing();
  seat_.Do({.kind = Kind::kRally});
  Rally();
  return Settle();
}

PeerActions PeerPolicy::OnStanding(WorkerId from, const Standing& standing, bool heard) {
  const auto member = std::find_if(group_.begin(), group_.end(),
                                   [&](const GroupMember& m) { return m.worker == from; });
  if (member == group_.end()) return {};
  standings_[from] = standing;
  reachable_[from] = member->admitted;
  SeatReachable();
  if (!heard) seat_.Do({.kind = Kind::kStand, .to = from});
  if (standing.finished) finished_[from] = true;
  Rally();
  return Settle();
}

void PeerPolicy::Rally() {
  if (!rallying_ || standings_.size() < group_.size()) return;
  rallying_ = false;
  has_run_ = true;
  // The donor: the lowest member of the highest version.
  const std::pair<const WorkerId, Standing>* donor = nullptr;
  for (const auto& entry : standings_) {
    if (!entry.second.has_values) continue;
    if (donor == nullptr || entry.second.version > donor->second.version) donor = &entry;
  }
  if (donor == nullptr) {  // nobody that was there is left: begin from the initial values
    has_values_ = true;
    return Resume(/*fetched=*/false);
  }
  const Clock version = donor->second.version;
  const bool same =
      std::visit([](const auto& exchange) { return exchange.kSameValues; }, exchange_);
  const auto needs = [&](const Standing& s) {
    return !s.has_values || (same && s.version < version);
  };
  if (donor->first == seat_.self) {
    for (const auto& [member, standing] : standings_) {
      if (needs(standing)) GiveState(member);
    }
  }
  if (needs(standing())) return;  // until the state comes
  if (lock_step()) seat_.version = version;
  Resume(fetched_);
}

void PeerPolicy::GiveState(WorkerId to) {
  PeerAction give = {.kind = Kind::kSendState, .to = to, .round = seat_.version, .weight = 1};
  if (auto* sum = std::get_if<PushSum>(&exchange_); sum != nullptr) give.weight = sum->GiveHalf();
  seat_.Do(give);
}

PeerActions PeerPolicy::OnState(WorkerId /*from*/, Clock version, double weight, Ticket ticket) {
  auto* sum = std::get_if<PushSum>(&exchange_);
  // Given twice, by a donor that was lost in between: only shares add up.
  if (has_values_ && sum != nullptr) {
    seat_.Do({.kind = Kind::kMerge, .ticket = ticket, .factor = sum->Take(weight)});
    return Settle();
  }
  const bool wanted = !has_values_ || (lock_step() && !running_ && version > seat_.version);
  if (!wanted) {
    seat_.Do({.kind = Kind::kForget, .ticket = ticket});
    return Settle();
  }
  has_values_ = true;
  seat_.version = version;
  seat_.Do({.kind = Kind::kAdopt, .ticket = ticket});
  if (sum != nullptr) sum->Begin(weight);
  fetched_ = true;
  if (!rallying_) Resume(fetched_);
  return Settle();
}

void PeerPolicy::Resume(bool fetched) {
  running_ = true;
  fetched_ = false;
  std::visit([&](auto& exchange) { exchange.Resume(&seat_, fetched); }, exchange_);
  for (const auto& [stretch, samples] : std::exchange(parts_, {})) TakePart(stretch, samples);
  if (gradient_.has_value()) {
    const auto [clock, samples] = *std::exchange(gradient_, std::nullopt);
    TakeGradient(clock, samples);
  }
  std::vector<Parcel> held = std::move(held_);
  held_.clear();
  for (const Parcel& parcel : held) Deliver(parcel);
}

PeerActions PeerPolicy::OnPull(Clock clock) {
  pull_ = clock;
  return Settle();
}

bool PeerPolicy::TakesParts() const {
  const auto* collective = std::get_if<Collective>(&exchange_);
  return collective != nullptr && collective->TakesParts();
}

PeerActions PeerPolicy::OnPart(uint32_t stretch, uint64_t samples) {
  if (running_) {
    TakePart(stretch, samples);
  } else {
    parts_.emplace_back(stretch, samples);
  }
  return Settle();
}

void PeerPolicy::TakePart(uint32_t stretch, uint64_t samples) {
  std::get<Collective>(exchange_).OnPart(&seat_, stretch, samples);
}

PeerActions PeerPolicy::OnGradient(Clock clock, uint64_t samples) {
  if (running_) {
    TakeGradient(clock, samples);
  } else {
    gradient_ = {clock, samples};
  }
  return Settle();
}

void PeerPolicy::TakeGradient(Clock clock, uint64_t samples) {
  std::visit([&](auto& exchange) { exchange.OnGradient(&seat_, clock, samples); }, exchange_);
  if (clock + 1 < seat_.total || seat_.worker_done) return;
  seat_.worker_done = true;
  std::visit([&](auto& exchange) { exchange.OnWorkerDone(&seat_); }, exchange_);
}

PeerActions PeerPolicy::OnParcel(const Parcel& parcel) {
  if (running_) {
    Deliver(parcel);
  } else {
    held_.push_back(parcel);
  }
  return Settle();
}

void PeerPolicy::Deliver(const Parcel& parcel) {
  std::visit([&](auto& exchange) { exchange.OnParcel(&seat_, parcel); }, exchange_);
}

PeerActions PeerPolicy::OnFinished(WorkerId from) {
  finished_[from] = true;
  return Settle();
}

PeerActions PeerPolicy::Settle() {
  if (pull_.has_value() && running_ && !seat_.gradient_waits && !gradient_.has_value()) {
    // Who is behind goes on from here.
    const Clock clock =
        std::min(std::max(*std::exchange(pull_, std::nullopt), seat_.version), seat_.total);
    seat_.Do({.kind = Kind::kReply, .round = clock});
    if (clock >= seat_.total && !seat_.worker_done) {
      seat_.worker_done = true;
      std::visit([&](auto& exchange) { exchange.OnWorkerDone(&seat_); }, exchange_);
    }
  }
  if (running_ && !rallying_ && Finished() && !told_finished_) {
    told_finished_ = true;
    finished_[seat_.self] = true;
    seat_.Do({.kind = Kind::kFinished});
  }
  const bool all = told_finished_ &&
                   std::all_of(group_.begin(), group_.end(),
                               [&](const GroupMember& m) { return finished_.contains(m.worker); });
  // The worker of a newcomer starts when the shards know of it. One admitted after the hand-in
  // never asks, and has nothing to add.
  if (all && seat_.worker_done && !handed_in_) {
    handed_in_ = true;
    seat_.Do({.kind = Kind::kHandIn, .weight = weight()});
  }
  return std::exchange(seat_.actions, {});
}

void PeerPolicy::AddTo(Fingerprint* f) const {
  for (const WorkerId member : seat_.members) f->Add(member);
  f->Add(group_.size());
  for (const GroupMember& member : group_) f->Add(member.worker);
  f->Add(seat_.version);
  f->Add(uint32_t{has_run_} << 8 | uint32_t{fetched_} << 7 | uint32_t{seat_.gradient_waits} |
         uint32_t{seat_.worker_done} << 1 | uint32_t{has_values_} << 2 | uint32_t{running_} << 3 |
         uint32_t{rallying_} << 4 | uint32_t{told_finished_} << 5 | uint32_t{handed_in_} << 6);
  for (const auto& [stretch, samples] : parts_) f->Add(stretch);
  f->Add(gradient_.has_value() ? gradient_->first : kNoClock);
  f->Add(pull_.value_or(kNoClock));
  for (const auto& [member, standing] : standings_) {
    f->Add(member);
    f->Add(standing.version);
    f->Add(standing.has_values);
  }
  for (const auto& [member, said] : finished_) f->Add(member);
  for (const Parcel& parcel : held_) {
    f->Add(parcel.from);
    f->Add(parcel.round);
    f->Add(parcel.step);
  }
  std::visit([&](const auto& exchange) { exchange.AddTo(f); }, exchange_);
}

}  // namespace soapstone::consistency
