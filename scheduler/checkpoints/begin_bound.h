// BeginBound: has all workers come to one clock: none begins it, or a later one, before it is told
// that it may. A value of the scheduler's shell beside the coordinator, as CheckpointOrders, whose
// part it is.
//
//   scheduler -> worker    Bound n, b: begin no clock from b on, or where you have, no further one
//   worker -> scheduler    Bounded n, f: the first that is not begun; f >= b
//   all have said b        nobody begins b, and whoever has not come to it will
//   some have said more    Bound n + 1, at the least multiple that nobody has begun: in the second
//                          round, at the latest, all say the same
//   lifted                 Bound n + 2, at the job's end, until all have answered
//
// Invariants
//  1. At says a clock only while each member of the roster, and each that is joining, is bound by
//     it. Who joins is told before it is told to start: its links keep the order.
//  2. What is lost is said again; what comes twice, late, or of a rank's former holder changes
//     nothing. Who leaves the roster is not waited for.
// A value: no I/O, no clock; times are handed in. Workers answer at once, whatever they compute:
// how long to wait for them, and for whom, is for its owner, and for who counts them out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::scheduler {

struct BeginBoundOptions {
  Clock end = 0;  // of the job: a bound there holds nobody
  Nanos repeat_ns = kSecond;
};

class BeginBound {
 public:
  explicit BeginBound(BeginBoundOptions options) : options_(options) {}

  // At the least multiple of `every` that is not below `clock`, and that nobody has begun.
  void Bind(Clock clock, Clock every);
  // Nobody is bound any more. Look says so.
  void Lift();
  // Members may be bound: by Bind, and not lifted since.
  bool holds() const { return order_.has_value() && order_->clock < options_.end; }

  // kBounded of a worker.
  void OnBounded(const wire::Message& message);
  // Now and then, and whenever the roster has changed or an answer has come: tells whom it has to.
  void Look(Nanos now, const wire::Roster& roster, wire::Outbox* out);
  // The clock that no member begins, or the job's end, where some have begun the last; none: not
  // all have answered.
  std::optional<Clock> At(const wire::Roster& roster) const;

  // The clock of the order in force; none: everybody knows that there is none.
  std::optional<Clock> asked() const {
    return order_.has_value() ? std::optional(order_->clock) : std::nullopt;
  }
  void AddTo(Fingerprint* f) const;

 private:
  struct Order {
    uint32_t number = 0;
    Clock clock = 0;
    Clock every = 1;
  };
  // Of who holds a rank: of the order in force.
  struct Told {
    Epoch admitted = 0;
    Nanos at = 0;
    std::optional<Clock> answer;
  };
  void Say(Clock clock, Clock every);
  const Told* Find(const wire::Member& member) const;

  BeginBoundOptions options_;
  uint32_t last_number_ = 0;
  std::optional<Order> order_;  // none: everybody knows that there is none
  std::map<WorkerId, Told> told_;
};

}  // namespace soapstone::scheduler
