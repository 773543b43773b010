#include "server/peer/peer_ledger.h"

#include "absl/strings/str_cat.h"

namespace soapstone::server {

using consistency::PeerActionKind;

void PeerLedger::OnParcel(WorkerId from, uint64_t before, uint64_t number) {
  const bool same = before != 0 && before >> kProcessShift == number >> kProcessShift;
  if (!same || number == before + 1) return;
  log_.Add("parcels", from, 0, [&] {
    return absl::StrCat("peer ", Index(self_), ": parcels of peer ", Index(from),
                        " are missing: number ", number & ((uint64_t{1} << kProcessShift) - 1),
                        " came after ", before & ((uint64_t{1} << kProcessShift) - 1));
  });
}

uint64_t PeerLedger::OrderWith(uint64_t order, PeerActionKind kind, uint64_t at) {
  order = (order ^ at ^ static_cast<uint64_t>(kind) << 56) * 0x9E3779B97F4A7C15u;
  return order ^ order >> 29;
}

void PeerLedger::OnStep(Clock round) {
  ++steps_;
  order_ = OrderWith(order_, PeerActionKind::kApplySum, static_cast<uint64_t>(round));
}

void PeerLedger::OnAsked(PeerActionKind kind, uint64_t begin) {
  order_ = OrderWith(order_, kind, begin);
}

void PeerLedger::OnMade(uint64_t steps, uint64_t order) {
  if (steps == steps_ && order == order_) return;
  log_.Add("steps", self_, static_cast<Clock>(steps), [&] {
    return absl::StrCat("peer ", Index(self_), ": the vectors have made ", steps, " steps where ",
                        steps_, " are due, left out a parcel, or made them in another order");
  });
}

void PeerLedger::OnRead(Clock clock, uint64_t steps) {
  if (steps == steps_) return;
  log_.Add("older", self_, clock, [&] {
    return absl::StrCat("peer ", Index(self_), ": a read at clock ", clock, " holds the values of ",
                        steps, " steps; ", steps_, " are made");
  });
}

void PeerLedger::Compare(WorkerId from, const Values& theirs) {
  if (theirs.sum == own_->sum) return;
  log_.Add("replicas", from, theirs.round, [&] {
    return absl::StrCat("peer ", Index(self_), ": peer ", Index(from), " began round ",
                        theirs.round, " with other values than this one");
  });
}

void PeerLedger::OnValues(Clock round, uint64_t sum) {
  own_ = {round, sum};
  for (auto it = others_.begin(); it != others_.end();) {
    if (it->second.round == round) Compare(it->first, it->second);
    it = it->second.round <= round ? others_.erase(it) : std::next(it);
  }
}

void PeerLedger::OnOthersValues(WorkerId from, Clock round, uint64_t sum) {
  if (KnowsValues(round)) {
    Compare(from, {round, sum});
  } else if (!own_.has_value() || round > own_->round) {
    others_[from] = {round, sum};
  }
}

void PeerLedger::OnGroup() {
  own_.reset();
  others_.clear();
}

void PeerLedger::OnFinalReply(const wire::Message& reply) {
  const auto& body = wire::As<wire::PullReply>(reply);
  if (body.oldest < reply.clock) {
    log_.Add("final", self_, reply.clock, [&] {
      return absl::StrCat("peer ", Index(self_), ": the final answer of ", reply.from.ToString(),
                          " lacks what some have handed in");
    });
  } else if (body.checksum != 0 && wire::SumOf(reply.payload) != body.checksum) {
    log_.Add("content", self_, reply.clock, [&] {
      return absl::StrCat("peer ", Index(self_), ": the final answer of ", reply.from.ToString(),
                          " holds other values than its keeper has written");
    });
  }
}

}  // namespace soapstone::server
