// PlannedTimes: when each half of a strategy's parts runs in the planned iteration, as the planner
// found it for the machine that it planned for. It stands in the strategy's file, so that who runs
// it can hold what is measured against it; nothing that is run depends on it. Values.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "strategy/order.h"
#include "wire/config/strategy.pb.h"

namespace soapstone::planner {

// Counted from the first half of any seat.
struct PlannedSpan {
  Nanos begin = 0, end = 0;
  friend bool operator==(const PlannedSpan&, const PlannedSpan&) = default;
};
// By seat: of the halves of an Order, one each. Empty: not known.
using PlannedTimes = std::vector<std::vector<PlannedSpan>>;

// REQUIRES: the message has the order that they are of (SetOrder).
void SetPlannedTimes(const PlannedTimes& times, wire::Strategy* message);

// Empty where the file has none. `order`: of the message (OrderFrom).
// Errors: InvalidArgument, "file: what": of another number of halves, or of times that are none.
absl::StatusOr<PlannedTimes> PlannedTimesFrom(const wire::Strategy& message,
                                              const std::string& file, const Order& order);

}  // namespace soapstone::planner
