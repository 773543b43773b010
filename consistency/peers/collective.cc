#include "consistency/peers/collective.h"

#include "base/random.h"

namespace soapstone::consistency {

using Kind = PeerActionKind;

void Collective::Resume(PeerSeat* seat, bool fetched) {
  if (fetched) {
    seat->Do({.kind = Kind::kDiscard});
    contributed_ = 0;
    arrived_ = false;
    seat->gradient_waits = false;
  }
  BeginIfDue(seat);
}

void Collective::OnGradient(PeerSeat* seat, Clock clock, uint64_t samples) {
  samples_ += samples;
  const bool late = clock < seat->version;
  // A late one goes with the next round, and its worker goes on at once.
  seat->gradient_waits = !late;
  arrived_ = arrived_ || !late || partial_ == Partial::kMajority;
  BeginIfDue(seat);
}

void Collective::OnParcel(PeerSeat* seat, const Parcel& parcel) {
  if (parcel.round < seat->version || !early_.Keep(parcel)) {
    return seat->Do({.kind = Kind::kForget, .ticket = parcel.ticket});
  }
  running_ ? Advance(seat) : BeginIfDue(seat);
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
    if (arrived_) Begin(seat);
    return;
  }
  if (seat->version == seat->total) {  // the last round waits for all
    if (seat->worker_done) Begin(seat);
    return;
  }
  if (early_.HasRound(seat->version)) return Begin(seat);
  if (!arrived_ || !IsStarter(*seat)) return;
  for (const WorkerId member : seat->members) {
    if (member == seat->self) continue;
    seat->Do({.kind = Kind::kSendNotice, .to = member, .round = seat->version, .step = kBeginStep});
  }
  Begin(seat);
}

void Collective::Begin(PeerSeat* seat) {
  running_ = true;
  step_ = 0;
  sent_ = false;
  hops_ = AllReduceHops(static_cast<uint32_t>(seat->me), static_cast<uint32_t>(seat->size()),
                        group_, seat->elements);
  contributed_ += samples_;
  samples_ = 0;
  base_ = carried_ = contributed_;
  seat->Do({.kind = Kind::kStage});
  Advance(seat);
}

// Each phase sums parts that are sums of the phase before: what a hop adds to is this phase's own
// part, and what it carries on is what the last hop took.
void Collective::Advance(PeerSeat* seat) {
  while (running_ && step_ < hops_.size()) {
    const Hop& hop = hops_[step_];
    if (!sent_) {
      if (hop.opens) base_ = carried_;
      seat->Do({.kind = Kind::kSendSum,
                .to = seat->members[hop.to],
                .round = seat->version,
                .step = step_,
                .range = hop.send,
                .samples = carried_});
      sent_ = true;
    }
    const std::optional<Parcel> parcel = early_.Take(seat->version, step_, seat->members[hop.from]);
    if (!parcel.has_value()) return;
    if (parcel->range != hop.receive) {  // not of this schedule
      return seat->Do({.kind = Kind::kForget, .ticket = parcel->ticket});
    }
    carried_ = parcel->samples + (hop.add ? base_ : 0);
    seat->Do({.kind = hop.add ? Kind::kAddParcel : Kind::kSetParcel,
              .ticket = parcel->ticket,
              .range = hop.receive});
    ++step_;
    sent_ = false;
  }
  if (running_) End(seat);
}

void Collective::End(PeerSeat* seat) {
  seat->Do({.kind = Kind::kApplySum, .round = seat->version, .samples = carried_});
  contributed_ = 0;
  running_ = arrived_ = false;
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
  f->Add(running_ ? step_ : 0);
  f->Add(running_ && sent_);
  f->Add(running_ ? base_ : 0);
  f->Add(running_ ? carried_ : 0);
  early_.AddTo(f);
}

}  // namespace soapstone::consistency
