// The order that every shard requires of one worker's updates: clock by clock, without gaps. Used
// by the gates that have no rounds.
#pragma once

#include <optional>

#include "consistency/action.h"
#include "consistency/clock_table.h"

namespace soapstone::consistency {

// What to do with a push that is not of its worker's next clock; empty where it is.
inline std::optional<ActionKind> OutOfOrder(const ClockTable& clocks, const PushEvent& push) {
  const Clock applied = clocks.Of(push.worker);
  if (push.clock < applied) return ActionKind::kDrop;
  if (push.clock > applied) return ActionKind::kReject;
  return std::nullopt;
}

}  // namespace soapstone::consistency
