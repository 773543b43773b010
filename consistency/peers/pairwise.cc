#include "consistency/peers/pairwise.h"

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "consistency/peers/mixing.h"

namespace soapstone::consistency {

using Kind = PeerActionKind;

std::optional<WorkerId> Pairwise::PartnerOf(const PeerSeat& seat) const {
  if (seat.me % 2 == 1) return std::nullopt;
  std::vector<size_t> passive = NeighboursOf(graph_, seed_, seat.version, seat.me, seat.size()).out;
  std::erase_if(passive, [](size_t j) { return j % 2 == 0; });
  if (passive.empty()) return std::nullopt;
  const CounterRandom random(seed_, RandomUse::kPartner, Index(seat.self));
  return seat.members[passive[random.Below(static_cast<uint64_t>(seat.version), passive.size())]];
}

void Pairwise::Resume(PeerSeat* seat, bool /*fetched*/) {
  if (!asked_.has_value()) return;
  const bool here =
      std::find(seat->members.begin(), seat->members.end(), *asked_) != seat->members.end();
  if (!here) Apply(seat);  // it will not answer any more
}

void Pairwise::OnGradient(PeerSeat* seat, Clock /*clock*/, uint64_t /*samples*/) {
  asked_ = PartnerOf(*seat);
  if (!asked_.has_value()) return Apply(seat);
  seat->gradient_waits = true;
  seat->Do({.kind = Kind::kSendValues, .to = *asked_, .round = seat->version, .step = kAsk});
}

void Pairwise::OnParcel(PeerSeat* seat, const Parcel& parcel) {
  if (parcel.step == kAsk) {
    return seat->Do({.kind = Kind::kMeet,
                     .to = parcel.from,
                     .ticket = parcel.ticket,
                     .round = parcel.round,
                     .step = kAnswer});
  }
  if (asked_ != parcel.from || parcel.round != seat->version) {
    return seat->Do({.kind = Kind::kForget, .ticket = parcel.ticket});
  }
  seat->Do({.kind = Kind::kAddToValues, .ticket = parcel.ticket, .factor = -1});
  Apply(seat);
}

void Pairwise::Apply(PeerSeat* seat) {
  asked_.reset();
  seat->gradient_waits = false;
  seat->Do({.kind = Kind::kApplyGradient, .round = seat->version});
  ++seat->version;
}

void Pairwise::AddTo(Fingerprint* f) const { f->Add(asked_.has_value() ? Index(*asked_) + 1 : 0); }

}  // namespace soapstone::consistency
