#include "server/store/capture.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace soapstone::server {

bool ChangesByRounds(const consistency::PolicyTraits& policy) {
  return std::holds_alternative<consistency::RoundTraits>(policy.gate) ||
         std::holds_alternative<consistency::BackupTraits>(policy.gate);
}

std::optional<Clock> CaptureOrder::Look(Clock frontier, Clock newest) {
  const Clock come_to = std::max(frontier, newest + 1);
  if (!clock_.has_value() || come_to < *clock_) return std::nullopt;
  if (come_to == *clock_ && frontier < come_to) return std::nullopt;  // not all are there
  const Clock clock = *std::exchange(clock_, std::nullopt);
  if (come_to == clock) return clock;
  missed_ = come_to;
  return std::nullopt;
}

}  // namespace soapstone::server
