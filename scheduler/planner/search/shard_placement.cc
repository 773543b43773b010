#include "scheduler/planner/search/shard_placement.h"

#include <algorithm>
#include <utility>

namespace soapstone::planner {
namespace {

constexpr uint32_t kGroupsOfRange = 8;  // at most

}  // namespace

ShardPlacement::ShardPlacement(const Space* space)
    : space_(space), servers_(static_cast<uint32_t>(space->machine().servers().size())) {
  const OpGraph& graph = space->graph();
  for (uint32_t group = 0; group < graph.groups.size(); ++group) {
    if (HasParams(graph, group)) groups_.push_back(group);
  }
  for (uint32_t s = 0; s < servers_; ++s) {
    const uint32_t node = space->machine().servers()[s].node;
    if (node >= of_node_.size()) of_node_.resize(node + 1);
    of_node_[node].push_back(s);
  }
}

std::vector<uint32_t> ShardPlacement::OfItsNodes(const Simulator& now, uint32_t group,
                                                 absl::Span<const Change> changes) const {
  std::vector<bool> is_near(of_node_.size(), false);
  for (const uint32_t op : space_->graph().groups[group]) {
    if (space_->graph().ops[op].params.empty()) continue;
    const auto change =
        std::find_if(changes.begin(), changes.end(), [op](const Change& c) { return c.op == op; });
    for (const uint32_t device :
         change == changes.end() ? now.config(op).devices : change->config.devices) {
      const uint32_t node = space_->machine().devices()[device].node;
      if (node < is_near.size()) is_near[node] = true;
    }
  }
  std::vector<uint32_t> servers;
  for (size_t node = 0; node < of_node_.size(); ++node) {
    if (!is_near[node]) continue;
    servers.insert(servers.end(), of_node_[node].begin(), of_node_[node].end());
  }
  std::sort(servers.begin(), servers.end());
  if (servers.size() == servers_) servers.clear();
  return servers;
}

std::vector<ServerChange> ShardPlacement::Spread(const Simulator& now,
                                                 absl::Span<const uint32_t> groups) const {
  std::vector<std::pair<int64_t, uint32_t>> order;  // bytes, group
  std::vector<int64_t> pushed(servers_, 0);
  for (const uint32_t group : groups_) {
    const int64_t bytes = now.HeldBytes(group);
    if (std::find(groups.begin(), groups.end(), group) != groups.end()) {
      order.emplace_back(bytes, group);
      continue;
    }
    const std::vector<uint32_t>& kept_by = now.servers(group);
    const auto shares = static_cast<int64_t>(kept_by.empty() ? servers_ : kept_by.size());
    for (uint32_t s = 0; s < shares; ++s)
      pushed[kept_by.empty() ? s : kept_by[s]] += bytes / shares;
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<ServerChange> changes;
  for (const auto& [bytes, group] : order) {
    const auto least = std::min_element(pushed.begin(), pushed.end());
    *least += bytes;
    changes.push_back({group, {static_cast<uint32_t>(least - pushed.begin())}});
  }
  return changes;
}

void ShardMoves::Draw(const Simulator& now, RandomSource* random) {
  changes_.clear();
  const std::vector<uint32_t>& all = placement_.groups();
  if (all.empty()) return;
  const auto count = static_cast<uint32_t>(all.size());
  absl::Span<const uint32_t> groups = all;
  const uint32_t scope = random->Below(4);  // one, one, a range, all
  if (scope < 3) {
    const uint32_t length = scope < 2 ? 1 : 2 + random->Below(kGroupsOfRange - 1);
    groups = groups.subspan(random->Below(count), length);
  }
  const uint32_t how = random->Below(4);
  if (how == 0) {
    changes_ = placement_.Spread(now, groups);
  } else {
    std::vector<uint32_t> one;
    if (how == 1) one.push_back(random->Below(placement_.servers()));
    for (const uint32_t group : groups) {
      changes_.push_back({group, how == 2 ? placement_.OfItsNodes(now, group) : one});
    }
  }
  DropUnchanged(now);
}

void ShardMoves::Follow(const Simulator& now, absl::Span<const Change> changes, bool all) {
  changes_.clear();
  for (const Change& change : changes) {
    const PlanOp& op = space_->graph().ops[change.op];
    const auto is_its = [&op](const ServerChange& other) { return other.group == op.group; };
    if (op.params.empty() || std::any_of(changes_.begin(), changes_.end(), is_its)) continue;
    const std::vector<uint32_t>& kept_by = now.servers(op.group);
    if (!all && (kept_by.empty() || kept_by != placement_.OfItsNodes(now, op.group))) continue;
    changes_.push_back({op.group, placement_.OfItsNodes(now, op.group, changes)});
  }
  DropUnchanged(now);
}

void ShardMoves::DropUnchanged(const Simulator& now) {
  changes_.erase(std::remove_if(changes_.begin(), changes_.end(),
                                [&now](const ServerChange& change) {
                                  return change.servers == now.servers(change.group);
                                }),
                 changes_.end());
}

}  // namespace soapstone::planner
