#include "server/peer_ledger.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace soapstone::server {
namespace {

constexpr int kPeerLogEvery = 1000;

}  // namespace

void PeerLedger::OnParcel(WorkerId from, uint64_t before, uint64_t number) {
  const bool same = before != 0 && before >> kProcessShift == number >> kProcessShift;
  if (!same || number == before + 1) return;
  Break(absl::StrCat("parcels of peer ", Index(from), " are missing: number ",
                     number & ((uint64_t{1} << kProcessShift) - 1), " came after ",
                     before & ((uint64_t{1} << kProcessShift) - 1)));
}

uint64_t PeerLedger::OrderWith(uint64_t order, Clock round) {
  order = (order ^ static_cast<uint64_t>(round)) * 0x9E3779B97F4A7C15u;
  return order ^ order >> 29;
}

void PeerLedger::OnStep(Clock round) {
  ++steps_;
  order_ = OrderWith(order_, round);
}

void PeerLedger::OnMade(uint64_t steps, uint64_t order) {
  if (steps == steps_ && order == order_) return;
  Break(absl::StrCat("the vectors have made ", steps, " steps where ", steps_,
                     " are due, or made them in another order"));
}

void PeerLedger::OnRead(Clock clock, uint64_t steps) {
  if (steps == steps_) return;
  Break(absl::StrCat("a read at clock ", clock, " holds the values of ", steps, " steps; ", steps_,
                     " are made"));
}

void PeerLedger::Break(std::string what) {
  ++violations_;
  what = absl::StrCat("peer ", Index(self_), ": ", what);
  if (!first_violation_.has_value()) first_violation_ = what;
  LOG_EVERY_N(ERROR, kPeerLogEvery) << "guarantee broken: " << what;
}

}  // namespace soapstone::server
