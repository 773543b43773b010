#include "wire/membership/teams.h"

#include <algorithm>

#include "wire/membership/membership.h"

namespace soapstone::wire {

Roster TeamRoster(const Roster& roster, const TeamShape& shape) {
  Roster teams = roster;
  teams.workers = {};
  teams.worker_count = shape.teams;
  uint32_t seats = 0;  // of the team in hand, that are there
  Member team;
  for (const Member& member : roster.workers) {  // they ascend
    const WorkerId of = TeamOf(member.worker, shape);
    if (seats == 0 || team.worker != of) {
      seats = 0;
      team = {.worker = of};
    }
    team.start = std::max(team.start, member.start);
    team.admitted = std::max(team.admitted, member.admitted);
    team.joining = team.joining || member.joining;
    team.original = team.original && member.original;
    if (++seats == shape.seats) teams.workers.push_back(team);
  }
  return teams;
}

std::vector<uint32_t> TeamsTakenOver(const Roster& teams, WorkerId team, Clock clock) {
  const std::vector<WorkerId> active = ActiveWorkers(teams, clock);
  std::vector<uint32_t> taken_over;
  size_t lost = 0;
  for (uint32_t other = 0; other < teams.worker_count; ++other) {
    if (std::binary_search(active.begin(), active.end(), WorkerId{other})) continue;
    if (!active.empty() && active[lost % active.size()] == team) taken_over.push_back(other);
    ++lost;
  }
  return taken_over;
}

Roster Reached(const Roster& roster, WorkerId worker, const TeamShape& shape, bool peers) {
  Roster reached = roster;
  reached.workers = {};
  for (const Member& member : roster.workers) {
    const bool team = TeamOf(member.worker, shape) == TeamOf(worker, shape);
    const bool seat = SeatOf(member.worker, shape) == SeatOf(worker, shape);
    if (team || (peers && seat)) reached.workers.push_back(member);
  }
  return reached;
}

Roster OnlySeat(const Roster& roster, uint32_t seat, const TeamShape& shape) {
  Roster only = roster;
  only.workers = {};
  only.worker_count = shape.teams;
  for (const Member& member : roster.workers) {
    if (SeatOf(member.worker, shape) == seat) only.workers.push_back(member);
  }
  return only;
}

}  // namespace soapstone::wire
