#include "consistency/peers/mixing.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/random.h"

namespace soapstone::consistency {
namespace {

using Kind = PeerActionKind;

// An order of [0, size), the same for all members.
std::vector<size_t> OrderOf(uint64_t seed, uint64_t draw, size_t size) {
  std::vector<size_t> order(size);
  std::iota(order.begin(), order.end(), size_t{0});
  const CounterRandom random(seed, RandomUse::kPartner, draw);
  for (size_t i = size; i > 1; --i) std::swap(order[i - 1], order[random.Below(i, i)]);
  return order;
}

Neighbours Partner(uint64_t seed, Clock round, size_t me, size_t size) {
  Clock rounds = 1;  // L
  while ((size_t{1} << rounds) < size) ++rounds;
  const std::vector<size_t> order = OrderOf(seed, static_cast<uint64_t>(round / rounds), size);
  const size_t place =
      static_cast<size_t>(std::find(order.begin(), order.end(), me) - order.begin());
  const size_t hop = (size_t{1} << (round % rounds)) % size;
  return {.in = {order[(place + size - hop) % size]}, .out = {order[(place + hop) % size]}};
}

}  // namespace

Neighbours NeighboursOf(Graph graph, uint64_t seed, Clock round, size_t me, size_t size) {
  if (size < 2) return {};
  if (graph == Graph::kRotating) return Partner(seed, round, me, size);
  std::set<size_t> others;
  if (graph == Graph::kComplete) {
    for (size_t j = 0; j < size; ++j) others.insert(j);
  } else {
    for (size_t hop = 1; hop < size; hop *= 2) {
      others.insert((me + hop) % size);
      others.insert((me + size - hop) % size);
      if (graph == Graph::kRing) break;
    }
  }
  others.erase(me);
  const std::vector<size_t> all(others.begin(), others.end());
  return {.in = all, .out = all};
}

void Mixing::Resume(PeerSeat* seat, bool fetched) {
  if (fetched) seat->gradient_waits = false;
  SendValues(seat);
  Advance(seat);
}

void Mixing::OnGradient(PeerSeat* seat, Clock /*clock*/, uint64_t /*samples*/) {
  seat->gradient_waits = true;
  Advance(seat);
}

void Mixing::OnParcel(PeerSeat* seat, const Parcel& parcel) {
  if (parcel.round < seat->version || !early_.Keep(parcel)) {
    return seat->Do({.kind = Kind::kForget, .ticket = parcel.ticket});
  }
  Advance(seat);
}

void Mixing::SendValues(PeerSeat* seat) {
  if (Finished(*seat)) return;
  const Neighbours near = NeighboursOf(graph_, seed_, seat->version, seat->me, seat->size());
  for (const size_t j : near.out) {
    seat->Do({.kind = Kind::kSendValues, .to = seat->members[j], .round = seat->version});
  }
}

void Mixing::Advance(PeerSeat* seat) {
  while (seat->gradient_waits && !Finished(*seat)) {
    const Neighbours near = NeighboursOf(graph_, seed_, seat->version, seat->me, seat->size());
    const bool here = std::all_of(near.in.begin(), near.in.end(), [&](size_t j) {
      return early_.Has(seat->version, 0, seat->members[j]);
    });
    if (!here) return;
    const double share = 1.0 / static_cast<double>(near.in.size() + 1);
    std::vector<size_t> all = near.in;
    all.insert(std::upper_bound(all.begin(), all.end(), seat->me), seat->me);
    seat->Do({.kind = Kind::kClearSum});
    for (const size_t j : all) {
      if (j == seat->me) {
        seat->Do({.kind = Kind::kAddValues, .factor = share});
        continue;
      }
      const std::optional<Parcel> parcel = early_.Take(seat->version, 0, seat->members[j]);
      seat->Do({.kind = Kind::kAddParcel,
                .ticket = parcel->ticket,
                .range = {0, seat->elements},
                .factor = share});
    }
    seat->Do({.kind = Kind::kValuesFromSum});
    seat->Do({.kind = Kind::kApplyGradient, .round = seat->version});
    seat->gradient_waits = false;
    ++seat->version;
    SendValues(seat);
  }
  // Overtaken by a rally at the end of the run: no round is left to take it along.
  if (!seat->gradient_waits) return;
  seat->Do({.kind = Kind::kApplyGradient, .round = seat->version});
  seat->gradient_waits = false;
}

}  // namespace soapstone::consistency
