// A Proposal is a change of a simulator's strategy that is kept or taken back as a whole. It
// changes the strategy, its loads and its task graph together, in the steps in which Simulator
// needs them: what is cheap to know first. It decides nothing.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/blocks/change.h"
#include "scheduler/planner/blocks/strategy_state.h"
#include "scheduler/planner/blocks/touched_blocks.h"
#include "scheduler/planner/timeline/loads.h"
#include "scheduler/planner/timeline/task_graph.h"

namespace soapstone::planner {

// Invariants:
//  1. The calls of one proposal are Begin, SwapBlocks, Place, in this order, and after any of them
//     Keep or TakeBack, which end it.
//  2. After Begin the strategy has the new operators and servers, and loads what they compute;
//     after SwapBlocks both have the edges and groups that go with them, and loads their fit; after
//     Place the task graph is that of the strategy.
//  3. After TakeBack strategy, loads, fit and task graph are what they were at Begin; where slots
//     moved for want of room, they stay there.
// Not to be shared between threads.
class Proposal {
 public:
  // Keeps the pointers, which must outlive it.
  Proposal(StrategyState* now, Loads* loads, TaskGraph* tasks);

  // REQUIRES !pending(), and what Simulator::Propose does of the changes.
  void Begin(absl::Span<const Change> changes, absl::Span<const ServerChange> servers);
  // REQUIRES what Begin was given
  void SwapBlocks(absl::Span<const Change> changes, absl::Span<const ServerChange> servers);
  void Place();
  void Keep();
  void TakeBack();

  bool pending() const { return pending_; }
  bool placed() const { return placed_; }
  // At Begin.
  const MemoryFit& fit_before() const { return fit_; }

 private:
  void Forget();

  StrategyState* now_;
  Loads* loads_;
  TaskGraph* tasks_;
  TouchedBlocks touched_;
  // What was replaced, in the order in which it was.
  std::vector<std::pair<uint32_t, const OpState*>> ops_;
  std::vector<std::pair<uint32_t, const EdgeBlock*>> edges_;
  std::vector<std::pair<uint32_t, const SyncBlock*>> groups_;
  std::vector<std::pair<uint32_t, std::vector<uint32_t>>> servers_;
  StrategyHash hash_;
  MemoryFit fit_;
  bool pending_ = false, placed_ = false;
};

}  // namespace soapstone::planner
