#include "scheduler/checkpoints/leaving_nodes.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"

namespace soapstone::scheduler {
namespace {

using wire::Address;
using wire::Role;

// The epoch of its admission, of a server 0; none: it is no member.
std::optional<Epoch> AdmittedAt(const wire::Roster& roster, Address node) {
  for (const wire::Member& member : roster.workers) {
    if (Address::Of(member.worker) == node) return member.admitted;
  }
  for (const wire::ServerEntry& entry : roster.servers) {
    if (Address::Of(entry.server) == node) return 0;
  }
  return std::nullopt;
}

}  // namespace

void LeavingNodes::Forget(const wire::Roster& roster) {
  for (auto it = asked_.begin(); it != asked_.end();) {
    const std::optional<Epoch> admitted = AdmittedAt(roster, it->first);
    if (!it->second.admitted.has_value()) it->second.admitted = admitted;
    const bool gone = !admitted.has_value() || it->second.admitted != admitted;
    it = gone ? asked_.erase(it) : std::next(it);
  }
}

LeavingNodes::Verdict LeavingNodes::Look(Nanos now, const wire::Roster& roster,
                                         const std::vector<Address>& silent) {
  Verdict verdict;
  Forget(roster);
  if (asked_.empty()) return verdict;
  verdict.stop = WhyItStops(roster);
  stops_ = stops_ || !verdict.stop.empty();
  if (!verdict.stop.empty() || !Goes(roster, silent)) return verdict;
  for (auto& [node, asked] : asked_) {
    if (asked.told || now < asked.at + kWait) continue;
    asked.told = true;
    verdict.may_leave.push_back(node);
  }
  return verdict;
}

std::string LeavingNodes::WhyItStops(const wire::Roster& roster) const {
  if (options_.beside_workers) {
    return absl::StrCat("worker ", asked_.begin()->first.index, " leaves, with its parameters");
  }
  for (const auto& [node, asked] : asked_) {
    if (node.role == Role::kServer) return absl::StrCat("server ", node.index, " leaves");
  }
  std::set<uint32_t> teams, of_asked;
  for (const wire::Member& member : roster.workers) teams.insert(TeamOf(member.worker));
  for (const auto& [node, asked] : asked_) of_asked.insert(TeamOf(WorkerId{node.index}));
  if (of_asked.size() < teams.size()) return "";
  if (options_.team_seats == 1) return "all workers leave";
  return absl::StrCat("worker ", asked_.rbegin()->first.index, " leaves, of the ",
                      teams.size() == 1 ? "only" : "last", " team");
}

// Some team is whole, and was heard of late.
bool LeavingNodes::Goes(const wire::Roster& roster, const std::vector<Address>& silent) const {
  std::set<uint32_t> teams, in_doubt;
  for (const wire::Member& member : roster.workers) {
    const Address node = Address::Of(member.worker);
    teams.insert(TeamOf(member.worker));
    if (asked_.contains(node) || std::ranges::find(silent, node) != silent.end()) {
      in_doubt.insert(TeamOf(member.worker));
    }
  }
  return in_doubt.size() < teams.size();
}

std::vector<uint32_t> LeavingNodes::workers() const {
  if (!stops_) return {};
  std::set<uint32_t> ranks;
  for (const auto& [node, asked] : asked_) {
    if (options_.beside_workers || node.role == Role::kWorker) ranks.insert(node.index);
  }
  return {ranks.begin(), ranks.end()};
}

}  // namespace soapstone::scheduler
