// Teams: the workers that run one copy of a model together, each in a seat of its own. To whoever
// counts replicas a team is one worker: shards and policies see a roster of teams. Values.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::wire {

// Worker t · seats + k has seat k of team t.
struct TeamShape {
  uint32_t teams = 1;
  uint32_t seats = 1;
  friend bool operator==(const TeamShape&, const TeamShape&) = default;
};

inline WorkerId TeamOf(WorkerId worker, const TeamShape& shape) {
  return WorkerId{Index(worker) / shape.seats};
}
inline uint32_t SeatOf(WorkerId worker, const TeamShape& shape) {
  return Index(worker) % shape.seats;
}
inline WorkerId WorkerAt(WorkerId team, uint32_t seat, const TeamShape& shape) {
  return WorkerId{Index(team) * shape.seats + seat};
}

// The teams all of whose seats are members, as members: admitted with the last of them, and from
// its start on.
Roster TeamRoster(const Roster& roster, const TeamShape& shape);
// The teams whose micro-batches `team` computes besides its own at `clock`, ascending: of those
// that are not active then the i-th is taken over by the (i mod n)-th of the n that are. `teams`: a
// TeamRoster.
std::vector<uint32_t> TeamsTakenOver(const Roster& teams, WorkerId team, Clock clock);
// The roster, with the workers alone that `worker` sends to: those of its team; and, where peers
// exchange parcels, those that have its seat in the other teams.
Roster Reached(const Roster& roster, WorkerId worker, const TeamShape& shape, bool peers);
// The roster, with the workers alone that have this seat: one of each team, which are the ranks.
Roster OnlySeat(const Roster& roster, uint32_t seat, const TeamShape& shape);

}  // namespace soapstone::wire
