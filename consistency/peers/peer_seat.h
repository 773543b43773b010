// What the decentralised policies share: the events and actions of their contract, and the seat a
// peer has among the others. A peer keeps its worker's parameters ("values") and exchanges parcels
// with other peers; server/peer/peer.h carries the actions out on tensors. Like action.h's, a
// peer's policy sees members, rounds and tickets, never a tensor, a message or a clock on the wall.
//
// A peer has four vectors, as long as the model: values, the gradient that is not yet in them, the
// contribution to the round in hand, and the sum that a round builds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "consistency/action.h"

namespace soapstone::consistency {

// Elements [begin, end) of a vector.
struct ElementRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
  friend auto operator<=>(const ElementRange&, const ElementRange&) = default;
};

// What another peer sent, as its receiver's policy sees it.
struct Parcel {
  WorkerId from{};
  Clock round = 0;
  uint32_t step = 0;  // in its round
  ElementRange range;
  uint64_t samples = 0;  // summed in it
  double weight = 0;     // push-sum: omega's part
  Ticket ticket{};
};

enum class PeerActionKind : uint8_t {
  // To `to`: a parcel of `round` and `step` with
  kSendNotice,  // nothing
  kSendValues,  // the values
  kSendSum,     // the sum over `range`
  // The sum
  kStage,          // contribution += gradient, gradient := 0, sum := contribution, over `range`
  kDiscard,        // contribution := 0: another peer's values have it already
  kClearSum,       // := 0
  kAddValues,      // += factor * values
  kAddParcel,      // += factor * parcel, over `range`
  kSetParcel,      // := parcel, over `range`
  kValuesFromSum,  // values := sum
  kApplySum,       // values: one optimizer step with sum / samples; contribution := 0
  // The values
  kApplyGradient,  // one optimizer step with the gradient / its samples; gradient := 0
  kAddToValues,    // += factor * parcel
  kMerge,          // += factor * (parcel - values)
  kMeet,           // d = (parcel - values) / 2; values += d; send d to `to`
  kAdopt,          // the state (values, optimizer) := parcel's
  // To the outside
  kReply,      // answer the worker's pull, for its clock `round`
  kSendState,  // to `to`: the values and the optimizer's state
  kRally,      // to all: where this peer stands
  kStand,      // to `to`: the same
  kFinished,   // to all: this peer has nothing more to send
  kHandIn,     // the values, which count `weight` times, to the shards
  kForget,     // the parcel of `ticket`: nobody wants it
};

struct PeerAction {
  PeerActionKind kind{};
  WorkerId to{};
  Ticket ticket{};
  Clock round = 0;
  uint32_t step = 0;
  ElementRange range;
  double factor = 1;
  uint64_t samples = 0;
  double weight = 0;
  friend bool operator==(const PeerAction&, const PeerAction&) = default;
};
using PeerActions = std::vector<PeerAction>;

// A peer's place: who takes part, how far it has come, what it is to do. Handed to its policy with
// every event.
struct PeerSeat {
  std::vector<WorkerId> members;  // ascending; with this peer
  size_t me = 0;                  // index in members
  WorkerId self{};
  Clock version = 0;      // rounds (or own steps) that are in the values
  Clock total = 0;        // of the run
  uint64_t elements = 0;  // of a vector
  // Of them those that a collective sums together, apart from others; ascending, all covered.
  std::vector<ElementRange> stretches;
  // A gradient is here that the worker's next read must wait for.
  bool gradient_waits = false;
  bool worker_done = false;  // the worker computes no more
  PeerActions actions;       // to be carried out, in order

  size_t size() const { return members.size(); }
  // The member `hop` places after this one, around the ring.
  WorkerId After(size_t hop) const { return members[(me + hop) % members.size()]; }
  WorkerId Before(size_t hop) const {
    return members[(me + members.size() - hop % members.size()) % members.size()];
  }
  void Do(PeerAction action) { actions.push_back(action); }
};

// Parcels that came before their turn, by (round, step, sender).
class EarlyParcels {
 public:
  // False where there is one already.
  bool Keep(const Parcel& parcel) {
    const auto at = Find(parcel.round, parcel.step, parcel.from);
    if (at != parcels_.end()) return false;
    parcels_.push_back(parcel);
    return true;
  }
  std::optional<Parcel> Take(Clock round, uint32_t step, WorkerId from) {
    const auto at = Find(round, step, from);
    if (at == parcels_.end()) return std::nullopt;
    const Parcel parcel = *at;
    parcels_.erase(at);
    return parcel;
  }
  bool Has(Clock round, uint32_t step, WorkerId from) const {
    return const_cast<EarlyParcels*>(this)->Find(round, step, from) != parcels_.end();
  }
  // Any parcel of `round`.
  bool HasRound(Clock round) const {
    for (const Parcel& parcel : parcels_) {
      if (parcel.round == round) return true;
    }
    return false;
  }
  const std::vector<Parcel>& all() const { return parcels_; }
  void clear() { parcels_.clear(); }
  void AddTo(Fingerprint* f) const {
    f->Add(parcels_.size());
    for (const Parcel& parcel : parcels_) {
      f->Add(parcel.round);
      f->Add(parcel.step);
      f->Add(parcel.from);
    }
  }

 private:
  std::vector<Parcel>::iterator Find(Clock round, uint32_t step, WorkerId from) {
    auto it = parcels_.begin();
    while (it != parcels_.end() && !(it->round == round && it->step == step && it->from == from)) {
      ++it;
    }
    return it;
  }
  std::vector<Parcel> parcels_;
};

}  // namespace soapstone::consistency
