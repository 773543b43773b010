#include "consistency/peers/collective.h"

#include <algorithm>

#include "base/random.h"

namespace soapstone::consistency {

using Kind = PeerActionKind;

void Collective::Resume(PeerSeat* seat, bool fetched) {
  stretches_.resize(seat->stretches.size());
  for (size_t s = 0; s < stretches_.size(); ++s) {
    stretches_[s].hops =
        AllReduceHops(static_cast<uint32_t>(seat->me), static_cast<uint32_t>(seat->size()), group_,
                      seat->stretches[s]);
  }
  if (fetched) {
    seat->Do({.kind = Kind::kDiscard});
    contributed_ = 0;
    arrived_ = false;
    for (Stretch& stretch : stretches_) stretch.here = false;
    seat->gradient_waits = false;
  }
  BeginIfDue(seat);
}

// What is contributed stays so, and begins anew when the members are known.
void Collective::Abort() {
  running_ = false;
  early_.clear();
  for (Stretch& stretch : stretches_) stretch = {.here = stretch.here};
}

void Collective::OnPart(PeerSeat* seat, size_t stretch, uint64_t samples) {
  if (stretches_[stretch].here) return;
  contributed_ = samples;  // the same for all stretches
  stretches_[stretch].here = true;
  Start(seat, stretch);
}

void Collective::OnGradient(PeerSeat* seat, Clock clock, uint64_t samples) {
  const bool late = clock < seat->version;
  seat->gradient_waits = !late;
  if (TakesParts()) {
    if (late) return;  // all its parts have come before, and its round has ended
    for (size_t s = 0; s < stretches_.size(); ++s) OnPart(seat, s, samples);
    return;
  }
  // A late one goes with the next round, and its worker goes on at once.
  arrived_ = arrived_ || !late || partial_ == Partial::kMajority;
  samples_ += samples;
  BeginIfDue(seat);
}

void Collective::OnParcel(PeerSeat* seat, const Parcel& parcel) {
  const size_t hops = stretches_.front().hops.size();
  const size_t stretch = hops == 0 ? stretches_.size() : parcel.step / hops;
  const bool known = stretch < stretches_.size() || parcel.step == kBeginStep;
  if (parcel.round < seat->version || !known || !early_.Keep(parcel)) {
    return seat->Do({.kind = Kind::kForget, .ticket = parcel.ticket});
  }
  if (!running_) return BeginIfDue(seat);
  if (stretch < stretches_.size()) Advance(seat, stretch);
}

// Of majority's rounds; any member may begin a round of the others.
bool Collective::IsStarter(const PeerSeat& seat) const {
  if (partial_ != Partial::kMajority) return true;
  const CounterRandom random(seed_, RandomUse::kPartner);
  return random.Below(static_cast<uint64_t>(seat.version), seat.size()) == seat.me;
}

void Collective::BeginIfDue(PeerSeat* seat) {
  if (running_ || Finished(*seat)) return;
  if (partial_ == Partial::kNone) {
    for (size_t s = 0; s < stretches_.size(); ++s) {
      if (stretches_[s].here) Start(seat, s);
    }
    return;
  }
  if (seat->version == seat->total) {  // the last round waits for all
    if (seat->worker_done) BeginPartial(seat);
    return;
  }
  if (early_.HasRound(seat->version)) return BeginPartial(seat);
  if (!arrived_ || !IsStarter(*seat)) return;
  for (const WorkerId member : seat->members) {
    if (member == seat->self) continue;
    seat->Do({.kind = Kind::kSendNotice, .to = member, .round = seat->version, .step = kBeginStep});
  }
  BeginPartial(seat);
}

void Collective::BeginPartial(PeerSeat* seat) {
  contributed_ += samples_;
  samples_ = 0;
  for (Stretch& stretch : stretches_) stretch.here = true;
  for (size_t s = 0; s < stretches_.size(); ++s) Start(seat, s);
}

// REQUIRES: our part is here. The last of all stretches may end the round.
void Collective::Start(PeerSeat* seat, size_t stretch) {
  Stretch& here = stretches_[stretch];
  running_ = here.started = true;
  here.base = here.carried = contributed_;
  seat->Do({.kind = Kind::kStage, .range = seat->stretches[stretch]});
  Advance(seat, stretch);
}

// Each phase sums parts that are sums of the phase before: what a hop adds to is this phase's own
// part, and what it carries on is what the last hop took.
void Collective::Advance(PeerSeat* seat, size_t stretch) {
  Stretch& here = stretches_[stretch];
  const auto first = static_cast<uint32_t>(stretch * here.hops.size());
  while (here.started && here.hop < here.hops.size()) {
    const Hop& hop = here.hops[here.hop];
    const uint32_t step = first + here.hop;
    if (!here.sent) {
      if (hop.opens) here.base = here.carried;
      seat->Do({.kind = Kind::kSendSum,
                .to = seat->members[hop.to],
                .round = seat->version,
                .step = step,
                .range = hop.send,
                .samples = here.carried});
      here.sent = true;
    }
    const std::optional<Parcel> parcel = early_.Take(seat->version, step, seat->members[hop.from]);
    if (!parcel.has_value()) return;
    if (parcel->range != hop.receive) {  // not of this schedule
      return seat->Do({.kind = Kind::kForget, .ticket = parcel->ticket});
    }
    here.carried = parcel->samples + (hop.add ? here.base : 0);
    seat->Do({.kind = hop.add ? Kind::kAddParcel : Kind::kSetParcel,
              .ticket = parcel->ticket,
              .range = hop.receive});
    ++here.hop;
    here.sent = false;
  }
  EndIfDone(seat);
}

void Collective::EndIfDone(PeerSeat* seat) {
  if (!std::all_of(stretches_.begin(), stretches_.end(), [](const Stretch& s) { return s.done(); }))
    return;
  seat->Do(
      {.kind = Kind::kApplySum, .round = seat->version, .samples = stretches_.front().carried});
  contributed_ = 0;
  running_ = arrived_ = false;
  for (Stretch& stretch : stretches_) {
    stretch.here = stretch.started = false;
    stretch.hop = 0;
  }
  seat->gradient_waits = false;
  for (const WorkerId member : seat->members) {
    if (const auto begin = early_.Take(seat->version, kBeginStep, member)) {
      seat->Do({.kind = Kind::kForget, .ticket = begin->ticket});
    }
  }
  ++seat->version;
  BeginIfDue(seat);
}

void Collective::AddTo(Fingerprint* f) const {
  f->Add(samples_);
  f->Add(contributed_);
  f->Add(arrived_);
  f->Add(running_);
  for (const Stretch& stretch : stretches_) {
    f->Add(uint32_t{stretch.here} | uint32_t{stretch.started} << 1 |
           uint32_t{stretch.started && stretch.sent} << 2 |
           (stretch.started ? stretch.hop : 0) << 3);
    f->Add(stretch.started ? stretch.base : 0);
    f->Add(stretch.started ? stretch.carried : 0);
  }
  early_.AddTo(f);
}

}  // namespace soapstone::consistency
