// The part of a simulator's strategy that says which servers keep a weight group.
#include <utility>

#include "absl/hash/hash.h"
#include "glog/logging.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {

int64_t Simulator::HeldBytes(uint32_t group) const {
  int64_t held = 0;
  for (const auto& [device, bytes] : syncs_[group]->held) held += bytes;
  return held;
}

// Into the strategy's hash, or out of it. Equal shares add nothing.
void Simulator::HashServers(uint32_t group) {
  const std::vector<uint32_t>& servers = strategy_.servers[group];
  if (servers.empty()) return;
  for (uint64_t i : {0, 1}) hash_[i] ^= absl::HashOf(i, n_ + group, servers);
}

void Simulator::SwapServers(absl::Span<const ServerChange> changes) {
  CHECK(changes.empty() || strategy_.synchronization == Synchronization::kServers);
  for (const ServerChange& change : changes) {
    std::vector<uint32_t>& servers = strategy_.servers[change.group];
    HashServers(change.group);
    undo_.servers.emplace_back(change.group, std::exchange(servers, change.servers));
    HashServers(change.group);
  }
}

void Simulator::TakeServersBack() {
  for (auto& [group, old] : undo_.servers) strategy_.servers[group] = std::move(old);
}

}  // namespace soapstone::planner
