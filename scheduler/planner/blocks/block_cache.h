// BlockCache finds what follows from configurations alone once, and looks it up afterwards: the
// state of an operator in a configuration, the tasks of a connection between two such states, those
// of a parameter group's synchronization. Members of an equivalence class share what is found, so
// that a search's proposals build next to nothing. Called by StrategyState, which holds what is in
// use. It knows nothing of loads, slots and time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/types/span.h"
#include "scheduler/planner/blocks/comm_block.h"
#include "scheduler/planner/blocks/connection_graph.h"
#include "scheduler/planner/blocks/edge_builder.h"
#include "scheduler/planner/blocks/flow_builder.h"
#include "scheduler/planner/blocks/op_split.h"
#include "scheduler/planner/blocks/param_pieces.h"
#include "scheduler/planner/blocks/sync_block.h"
#include "scheduler/planner/cost/cost_model.h"
#include "strategy/machine.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

// An operator in one configuration.
struct OpState {
  OpConfig config;
  const OpSplit* split = nullptr;
  uint32_t id = 0;                       // among those of the class
  uint64_t hash[2] = {0, 0};             // of the configuration
  std::vector<Nanos> forward, backward;  // busy times by part, with exchanges
  Nanos forward_min = 0, forward_max = 0, backward_min = 0, backward_max = 0;
};

// Invariants:
//  1. Two operators of one class have one state for one configuration, at one address; so have two
//     connections of a class between equal states, and two groups of a class of equal states,
//     synchronized in one way by the same servers.
//  2. Addresses, and what stands there, stay until Clear. What is found after it equals what was
//     found before it.
//  3. words() grows with each state, block and list of overlaps that is made, and Clear makes it 0.
// Not to be shared between threads.
class BlockCache {
 public:
  struct Options {
    int64_t segment_bytes = 0;           // comm_block.h
    size_t words_max = size_t{1} << 26;  // of four bytes: 256 MB of states, blocks and overlaps
    bool rings_by_ranges = false;        // sync_block.h
  };
  // Keeps the pointers, which must outlive it. Asks `costs` once for each way to split an operator.
  BlockCache(const ConnectionGraph* connections, const Machine* machine, const CostModel* costs,
             Options options);
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // REQUIRES CheckConfig
  const OpState* FindOp(uint32_t op, const OpConfig& config);
  // from, to: the states of the connection's two operators.
  const EdgeBlock* FindEdge(uint32_t edge, const OpState& from, const OpState& to);
  // ops: by operator; those of the group are read. servers: as in Strategy.
  const SyncBlock* FindSync(uint32_t group, absl::Span<const OpState* const> ops,
                            Synchronization synchronization, const std::vector<uint32_t>& servers);

  size_t words() const { return words_ + splits_.overlap_words(); }
  // Beyond words_max, and beyond twice what one strategy takes by itself.
  bool full() const { return words() > std::max(options_.words_max, 2 * held_words_); }
  // What is there now is in use as a whole.
  void Hold() { held_words_ = words(); }
  // Forgets all states and blocks, and keeps their memory for others.
  void Clear();

  // How many queues blocks use: devices, then links, then servers.
  uint32_t resources() const { return flow_builder_.resources(); }

 private:
  // What is found, by class, and what was, whose memory is used again.
  template <typename Key, typename T, typename Hash = absl::Hash<Key>>
  struct Found {
    std::vector<absl::flat_hash_map<Key, std::unique_ptr<T>, Hash>> by_class;
    std::vector<std::unique_ptr<T>> spare;
    std::unique_ptr<T> New();
    void Forget();
  };
  struct ConfigHash {
    size_t operator()(const OpConfig& config) const;
  };
  void SetTimes(OpState* state) const;

  const ConnectionGraph* connections_;
  const Machine* machine_;
  const Options options_;
  SplitTable splits_;
  FlowBuilder flow_builder_;
  EdgeBuilder edge_builder_;
  SyncBuilder sync_builder_;
  Found<OpConfig, OpState, ConfigHash> ops_;
  Found<uint64_t, EdgeBlock> edges_;  // by the ids of both states
  Found<std::vector<uint32_t>, SyncBlock> syncs_;
  size_t words_ = 0;       // without overlaps
  size_t held_words_ = 0;  // of Hold
  // Memory of the calls.
  std::vector<uint32_t> sync_key_;
  std::vector<PlacedSplit> members_;
  std::vector<const std::vector<Overlap>*> overlaps_;
};

}  // namespace soapstone::planner
