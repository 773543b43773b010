#include "sim/world/world_mutant.h"

#include <variant>

namespace soapstone::sim {

using wire::MessageType;
using wire::Role;

bool Mutate(WorldMutant mutant, wire::Message* message) {
  const bool roster_of_a_loss = message->type == MessageType::kRoster && message->epoch > 1;
  switch (mutant) {
    case WorldMutant::kNoTakeover:
      return !(roster_of_a_loss && message->to.role == Role::kWorker);
    case WorldMutant::kNoRelease:
      return !(roster_of_a_loss && message->to.role == Role::kShard);
    case WorldMutant::kSharesTooEarly:
      if (auto* roster = std::get_if<wire::Roster>(&message->body);
          roster != nullptr && message->to.role == Role::kWorker && !roster->shares.empty()) {
        for (wire::Shares& shares : roster->shares.Mutable()) shares.from -= 2;
      }
      return true;
    case WorldMutant::kUncountedClock:
      if (message->type == MessageType::kClock) wire::As<wire::Completion>(message).pushes = 0;
      return true;
    case WorldMutant::kBeginsThoughBound:
    case WorldMutant::kBeginsUnseen:
      if (message->type == MessageType::kBound) message->clock = kClockMax;
      return true;
    default:
      return true;
  }
}

}  // namespace soapstone::sim
