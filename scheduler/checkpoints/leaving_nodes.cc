#include "scheduler/checkpoints/leaving_nodes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace soapstone::scheduler {

using wire::Address;
using wire::Role;

std::optional<std::string> LeavingNodes::Take(Address node, const wire::Roster& roster) {
  const auto is_member = [&roster](Address of) {
    return std::ranges::any_of(
               roster.workers,
               [&](const wire::Member& m) { return Address::Of(m.worker) == of; }) ||
           std::ranges::any_of(roster.servers, [&](const wire::ServerEntry& entry) {
             return Address::Of(entry.server) == of;
           });
  };
  if (!is_member(node)) return std::nullopt;
  std::erase_if(asked_, [&](Address former) { return !is_member(former); });  // they have gone
  asked_.insert(node);
  std::optional<std::string> why = WhyItStops(node, roster);
  stops_ = stops_ || why.has_value();
  return why;
}

std::optional<std::string> LeavingNodes::WhyItStops(Address node,
                                                    const wire::Roster& roster) const {
  if (options_.beside_workers) {
    return absl::StrCat("worker ", node.index, " leaves, with its parameters");
  }
  if (node.role == Role::kServer) return absl::StrCat("server ", node.index, " leaves");
  if (options_.team_seats > 0 && roster.workers.size() <= options_.team_seats) {
    return absl::StrCat("worker ", node.index, " leaves, of the only team");
  }
  const bool all = std::ranges::all_of(roster.workers, [this](const wire::Member& member) {
    return asked_.contains(Address::Of(member.worker));
  });
  return all ? std::optional<std::string>("all workers leave") : std::nullopt;
}

std::vector<uint32_t> LeavingNodes::workers() const {
  if (!stops_) return {};
  std::set<uint32_t> ranks;
  for (const Address node : asked_) {
    if (options_.beside_workers || node.role == Role::kWorker) ranks.insert(node.index);
  }
  return {ranks.begin(), ranks.end()};
}

}  // namespace soapstone::scheduler
