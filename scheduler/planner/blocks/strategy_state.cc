#include "scheduler/planner/blocks/strategy_state.h"

#include <utility>

#include "absl/hash/hash.h"

namespace soapstone::planner {

StrategyState::StrategyState(const ConnectionGraph* connections, BlockCache* cache)
    : connections_(connections),
      cache_(cache),
      ops_(connections->ops(), nullptr),
      edges_(connections->edges(), nullptr),
      syncs_(connections->groups(), nullptr) {}

Strategy StrategyState::strategy() const {
  Strategy strategy = strategy_;
  for (const OpState* op : ops_) strategy.ops.push_back(op->config);
  DropEqualShares(&strategy);
  return strategy;
}

bool StrategyState::Set(const Strategy& strategy, const std::function<bool()>& give_up) {
  if (cache_->full()) cache_->Clear();
  const bool alone = cache_->words() == 0;
  strategy_ = strategy;
  strategy_.ops.clear();
  strategy_.servers.resize(connections_->groups());
  if (!FindAll(strategy.ops, give_up)) return false;
  if (alone) cache_->Hold();
  hash_ = {};
  for (uint32_t op = 0; op < ops_.size(); ++op) {
    for (int i : {0, 1}) hash_.words[i] ^= absl::HashOf(op, ops_[op]->hash[i]);
  }
  for (uint32_t group = 0; group < syncs_.size(); ++group) HashServers(group);
  return true;
}

bool StrategyState::FindAll(absl::Span<const OpConfig> configs,
                            const std::function<bool()>& give_up) {
  bool over = false;
  const auto goes_on = [&] { return !(over = over || (give_up && give_up())); };
  for (uint32_t op = 0; op < ops_.size() && goes_on(); ++op) {
    ops_[op] = cache_->FindOp(op, configs[op]);
  }
  for (uint32_t edge = 0; edge < edges_.size() && goes_on(); ++edge) edges_[edge] = FindEdge(edge);
  for (uint32_t group = 0; group < syncs_.size() && goes_on(); ++group) {
    syncs_[group] = FindSync(group);
  }
  return goes_on();
}

bool StrategyState::RefreshFullCache() {
  if (!cache_->full()) return false;
  const std::vector<OpConfig> configs = strategy().ops;
  cache_->Clear();
  FindAll(configs, {});
  cache_->Hold();
  return true;
}

const EdgeBlock* StrategyState::FindEdge(uint32_t edge) const {
  const Connection& connection = connections_->edge(edge);
  return cache_->FindEdge(edge, *ops_[connection.from], *ops_[connection.to]);
}

const SyncBlock* StrategyState::FindSync(uint32_t group) const {
  return cache_->FindSync(group, ops_, strategy_.synchronization, strategy_.servers[group]);
}

const OpState* StrategyState::SetOp(uint32_t op, const OpConfig& config) {
  const OpState* const now = cache_->FindOp(op, config);
  const OpState* const before = std::exchange(ops_[op], now);
  for (int i : {0, 1}) {
    hash_.words[i] ^= absl::HashOf(op, before->hash[i]) ^ absl::HashOf(op, now->hash[i]);
  }
  return before;
}

const EdgeBlock* StrategyState::UpdateEdge(uint32_t edge) {
  return std::exchange(edges_[edge], FindEdge(edge));
}

const SyncBlock* StrategyState::UpdateSync(uint32_t group) {
  return std::exchange(syncs_[group], FindSync(group));
}

// Into the strategy's hash, or out of it. Equal shares add nothing.
void StrategyState::HashServers(uint32_t group) {
  const std::vector<uint32_t>& servers = strategy_.servers[group];
  if (servers.empty()) return;
  for (uint64_t i : {0, 1}) {
    hash_.words[i] ^= absl::HashOf(i, connections_->ops() + group, servers);
  }
}

std::vector<uint32_t> StrategyState::SetServers(uint32_t group,
                                                const std::vector<uint32_t>& servers) {
  HashServers(group);
  std::vector<uint32_t> before = std::exchange(strategy_.servers[group], servers);
  HashServers(group);
  return before;
}

void StrategyState::RestoreServers(uint32_t group, std::vector<uint32_t> servers) {
  strategy_.servers[group] = std::move(servers);
}

int64_t StrategyState::HeldBytes(uint32_t group) const {
  int64_t held = 0;
  for (const auto& [device, bytes] : syncs_[group]->held) held += bytes;
  return held;
}

}  // namespace soapstone::planner
