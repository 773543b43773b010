#include "strategy/window.h"

#include <algorithm>
#include <set>
#include <utility>

namespace soapstone::planner {
namespace {

// By seat: whom its outputs come to, directly or through others.
std::vector<std::vector<bool>> ReachOf(const std::set<std::pair<uint32_t, uint32_t>>& sends,
                                       uint32_t seats) {
  std::vector<std::vector<uint32_t>> next(seats);
  for (const auto& [from, to] : sends) next[from].push_back(to);
  std::vector<std::vector<bool>> reach(seats, std::vector<bool>(seats));
  for (uint32_t seat = 0; seat < seats; ++seat) {
    std::vector<uint32_t> open = next[seat];
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      if (reach[seat][at]) continue;
      reach[seat][at] = true;
      open.insert(open.end(), next[at].begin(), next[at].end());
    }
  }
  return reach;
}

}  // namespace

std::vector<uint32_t> LeadsOf(const std::vector<BlockMessage>& messages, uint32_t seats,
                              uint32_t window) {
  std::set<std::pair<uint32_t, uint32_t>> sends;
  for (const BlockMessage& message : messages) {
    if (!message.backward) sends.emplace(message.from, message.to);
  }
  const std::vector<std::vector<bool>> reach = ReachOf(sends, seats);
  std::vector<uint32_t> leads(seats, 0);
  for (bool grows = true; grows;) {
    grows = false;
    for (const auto& [from, to] : sends) {
      const uint32_t lead = std::min(window - 1, leads[to] + (reach[to][from] ? 0u : 1u));
      if (lead <= leads[from]) continue;
      leads[from] = lead;
      grows = true;
    }
  }
  return leads;
}

Order ForwardFirst(Order order, const std::vector<uint32_t>& leads) {
  for (uint32_t seat = 0; seat < order.size(); ++seat) {
    if (leads[seat] == 0) continue;
    std::stable_partition(order[seat].begin(), order[seat].end(),
                          [](const TaskRef& task) { return !task.backward; });
  }
  return order;
}

}  // namespace soapstone::planner
