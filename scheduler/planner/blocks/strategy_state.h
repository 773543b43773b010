// StrategyState is the strategy that a simulator is set to, as what follows from its
// configurations: each operator's state, each connection's tasks, each parameter group's
// synchronization. Simulator sets it and Proposal changes it step by step; loads, bounds, task
// graph and timeline read it. It knows nothing of these.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/blocks/block_cache.h"
#include "scheduler/planner/blocks/connection_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

// Of 128 bits, so that two strategies of a search have different ones.
struct StrategyHash {
  uint64_t words[2] = {0, 0};
  friend bool operator==(const StrategyHash&, const StrategyHash&) = default;
};

// Invariants, from the first Set on:
//  1. op(o) is what the cache finds for o's configuration. Once UpdateEdge and UpdateSync were
//     called for what changed operators and servers touch, edge(e) and sync(g) are what it finds
//     for the states at their ends, the way to synchronize and the group's servers.
//  2. hash() is a function of the configurations and of who keeps which group, whatever was set
//     before: it is the exclusive or of one term an operator and one a group that not all servers
//     keep.
// Not to be shared between threads.
class StrategyState {
 public:
  // Keeps the pointers, which must outlive it.
  StrategyState(const ConnectionGraph* connections, BlockCache* cache);

  // give_up: asked now and then; where it says so, Set ends with false, and there is no strategy
  // until the next. Empty: never. REQUIRES CheckStrategy
  bool Set(const Strategy& strategy, const std::function<bool()>& give_up = {});
  Strategy strategy() const;
  // Empties the cache where it is full, and finds all anew: true, and then no pointer to a state or
  // a block that was got before is one.
  bool RefreshFullCache();

  const ConnectionGraph& connections() const { return *connections_; }
  Synchronization synchronization() const { return strategy_.synchronization; }
  uint32_t staleness() const { return strategy_.staleness; }
  const std::vector<uint32_t>& servers(uint32_t group) const { return strategy_.servers[group]; }
  const OpState& op(uint32_t id) const { return *ops_[id]; }
  const EdgeBlock& edge(uint32_t id) const { return *edges_[id]; }
  const SyncBlock& sync(uint32_t group) const { return *syncs_[group]; }
  absl::Span<const OpState* const> ops() const { return ops_; }
  const StrategyHash& hash() const { return hash_; }
  // Bytes of the group's parameters on all devices together.
  int64_t HeldBytes(uint32_t group) const;

  // Each puts what the cache finds in the place of what was there, and returns that.
  const OpState* SetOp(uint32_t op, const OpConfig& config);
  std::vector<uint32_t> SetServers(uint32_t group, const std::vector<uint32_t>& servers);
  const EdgeBlock* UpdateEdge(uint32_t edge);
  const SyncBlock* UpdateSync(uint32_t group);

  // Takes these back. The hash comes back as a whole, by its own call.
  void RestoreOp(uint32_t op, const OpState* state) { ops_[op] = state; }
  void RestoreEdge(uint32_t edge, const EdgeBlock* block) { edges_[edge] = block; }
  void RestoreSync(uint32_t group, const SyncBlock* block) { syncs_[group] = block; }
  void RestoreServers(uint32_t group, std::vector<uint32_t> servers);
  void RestoreHash(const StrategyHash& hash) { hash_ = hash; }

 private:
  bool FindAll(absl::Span<const OpConfig> configs, const std::function<bool()>& give_up);
  const EdgeBlock* FindEdge(uint32_t edge) const;
  const SyncBlock* FindSync(uint32_t group) const;
  void HashServers(uint32_t group);

  const ConnectionGraph* connections_;
  BlockCache* cache_;
  Strategy strategy_;  // all but configurations; servers of each group
  std::vector<const OpState*> ops_;
  std::vector<const EdgeBlock*> edges_;
  std::vector<const SyncBlock*> syncs_;
  StrategyHash hash_;
};

}  // namespace soapstone::planner
