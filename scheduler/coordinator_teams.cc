// The Coordinator's part in teams of workers that run one model together: which of them go on where
// a seat is gone, and which evaluates.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/exit_codes.h"
#include "scheduler/coordinator.h"
#include "scheduler/spoken.h"

namespace soapstone::scheduler {

using wire::Address;
using wire::MessageType;
using wire::Notice;
using wire::Outbox;

std::optional<Notice> Coordinator::WhyNotWithoutTeamOf(WorkerId seat, Notice if_none_left) const {
  const wire::TeamShape& shape = *options_.team;
  const WorkerId team = wire::TeamOf(seat, shape);
  const auto others =
      static_cast<uint32_t>(std::count_if(roster().workers.begin(), roster().workers.end(),
                                          [&](const auto& member) {
                                            return wire::TeamOf(member.worker, shape) != team &&
                                                   members_.IsMember(member.worker);
                                          }) /
                            shape.seats);
  const std::string gone = absl::StrCat(Spoken(Address::Of(seat)), " is gone, and ");
  const int32_t code = if_none_left.code;
  if (others == 0) {
    if (shape.seats == 1) return if_none_left;
    return Notice{code,
                  absl::StrCat(gone, "no team goes on without one of its ", shape.seats, " seats")};
  }
  const std::string with_it = absl::StrCat(gone, "with it team ", Index(team));
  if (options_.beside_workers && Index(seat) < options_.servers) {
    return Notice{code, absl::StrCat(with_it, ", whose workers keep the parameters")};
  }
  if (options_.ends_with_a_team) {
    return Notice{code, absl::StrCat(with_it,
                                     ": seats of the others, which exchange with its own "
                                     "each by itself, might go on from different clocks")};
  }
  const uint32_t lost = shape.teams - others;
  if (!options_.needs_all_teams || lost <= others) return std::nullopt;
  return Notice{code, absl::StrCat(with_it, ": the policy needs the micro-batches of all ",
                                   shape.teams, " teams, and each of the ", others,
                                   " that are left takes over one team's at most")};
}

void Coordinator::DropTeamOf(WorkerId seat, Outbox* out) {
  const wire::TeamShape& shape = *options_.team;
  const WorkerId team = wire::TeamOf(seat, shape);
  const std::string line =
      absl::StrCat("team ", Index(team), " is out, for ", Spoken(Address::Of(seat)), " is gone");
  std::vector<uint32_t> left;
  for (uint32_t k = 0; k < shape.seats; ++k) {
    const WorkerId other = wire::WorkerAt(team, k, shape);
    const Address node = Address::Of(other);
    if (!members_.Remove(other)) continue;
    left.push_back(Index(other));
    nodes_.Remove(node);
    broken_links_.Forget(node);
    rebalancer_.Forget(other);
    out->Send(messages_.Notice(node, MessageType::kShutdown, {kExitPeerLost, line}));
  }
  const std::string end = left.empty() ? ""
                                       : absl::StrCat(left.size() == 1 ? "; worker " : "; workers ",
                                                      absl::StrJoin(left, ", "),
                                                      left.size() == 1 ? " ends too" : " end too");
  news_.Add(absl::StrCat(line, end, "; the other teams go on"));
}

std::string Coordinator::SpokenNewcomers(const std::vector<wire::Member>& newcomers) const {
  const WorkerId first = newcomers[0].worker;
  if (!options_.team.has_value()) return Spoken(Address::Of(first));
  return absl::StrCat("team ", Index(wire::TeamOf(first, *options_.team)));
}

void Coordinator::SendEvaluate(Nanos now, Outbox* out) {
  wait_began_ = now;
  evaluators_.clear();
  evaluation_.reset();
  const WorkerId first = roster().workers.front().worker;
  if (!options_.team.has_value()) {
    evaluators_ = {first};
    news_.Add(absl::StrCat("all workers done; ", Spoken(Address::Of(first)), " evaluates"));
  } else {
    const WorkerId team = wire::TeamOf(first, *options_.team);
    for (uint32_t seat = 0; seat < options_.team->seats; ++seat) {
      evaluators_.insert(wire::WorkerAt(team, seat, *options_.team));
    }
    news_.Add(absl::StrCat("all workers done; team ", Index(team), " evaluates"));
  }
  for (const WorkerId worker : evaluators_) {
    out->Send(messages_.To(Address::Of(worker), MessageType::kEvaluate));
  }
}

}  // namespace soapstone::scheduler
