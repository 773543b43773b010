#include "consistency/peers/push_sum.h"

#include <cstring>

namespace soapstone::consistency {

using Kind = PeerActionKind;

size_t PushSum::HopOf(Clock step, size_t size) const {
  const size_t others = size - 1;
  switch (graph_) {
    case Graph::kRing:
      return 1;
    case Graph::kComplete:
      return 1 + static_cast<size_t>(step) % others;
    default:
      break;
  }
  size_t hops = 1;
  while ((size_t{1} << hops) <= others) ++hops;
  return size_t{1} << (static_cast<size_t>(step) % hops);
}

void PushSum::OnGradient(PeerSeat* seat, Clock /*clock*/, uint64_t /*samples*/) {
  seat->Do({.kind = Kind::kApplyGradient, .round = seat->version});
  if (seat->size() > 1 && weight_ > kWeightMin) {
    weight_ /= 2;
    seat->Do({.kind = Kind::kSendValues,
              .to = seat->After(HopOf(seat->version, seat->size())),
              .round = seat->version,
              .weight = weight_});
  }
  ++seat->version;
}

void PushSum::OnParcel(PeerSeat* seat, const Parcel& parcel) {
  seat->Do({.kind = Kind::kMerge, .ticket = parcel.ticket, .factor = Take(parcel.weight)});
}

void PushSum::AddTo(Fingerprint* f) const {
  uint64_t bits = 0;
  std::memcpy(&bits, &weight_, sizeof(bits));
  f->AddWord(bits);
}

}  // namespace soapstone::consistency
