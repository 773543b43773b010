// TaskGraph lays out the tasks of a strategy for runs of the timeline. Every part of an operator is
// a forward and a backward task on its device. A part waits for the parts whose output it reads:
// directly on its own device, else behind a transfer (comm_block.h). Gradients flow back the same
// ways. When the last backward part of a parameter group on a device is over, its gradients are
// synchronized (sync_block.h) while others still compute.
//
// Tasks have slots, which are their places in arrays; blocks share the slots out. Blocks are
// operators' forward parts, connections' transfers, operators' backward parts, connections'
// gradients, and groups, each in the graph's order: so slots order tasks as ids do (timeline.h).
// Simulator places all of a strategy, Proposal what a change touches; Timeline reads it, and counts
// down what tasks wait for. It knows no time but how long a part computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/planner/blocks/comm_block.h"
#include "scheduler/planner/blocks/connection_graph.h"
#include "scheduler/planner/blocks/strategy_state.h"
#include "scheduler/planner/blocks/touched_blocks.h"

namespace soapstone::planner {

enum class BlockKind : uint8_t { kForward, kTransfer, kBackward, kGradient, kSync };

// What a task is. Of transfers, gradients and synchronization the block says more.
struct Task {
  Nanos busy = 0;  // of kForward and kBackward, as the device is
  uint32_t device = 0;
  uint32_t role = 0;  // RoleOf
  // starts: of a forward task: nothing else sets its backward task free
  static uint32_t RoleOf(BlockKind kind, uint32_t of, bool starts = false) {
    return of << 4 | (starts ? 8 : 0) | static_cast<uint32_t>(kind);
  }
  BlockKind kind() const { return static_cast<BlockKind>(role & 7); }
  bool starts() const { return (role & 8) != 0; }
  uint32_t of() const { return role >> 4; }  // operator, connection, group
};

// What a task, or a join of flows, still waits for in a run.
struct TaskState {
  Nanos ready = 0;                  // the latest end so far of what it waits for
  uint32_t missing = 0, waits = 0;  // how many are not over yet; of how many
  friend bool operator==(const TaskState&, const TaskState&) = default;
};

// Where what a part makes goes: of a connection's end, in the order of EdgeEnds.
struct Route {
  const PartLists* lists = nullptr;  // nullptr: to the part of its number alone
  uint32_t parts = 0, tasks = 0;     // first slots
};

// Invariants, once placed and with all that was touched since placed again:
//  1. Blocks do not overlap, and their slots ascend in the order above. A block's tasks come first
//     in it, then its joins; it stays where it is but when a block outgrows its room.
//  2. state(slot).waits is how many tasks, flows or parts set that slot free in a run. Between runs
//     missing equals waits and ready is 0.
//  3. Every route leads to where its connection's parts and tasks are.
//  4. The order of tasks, and what they are, are functions of the strategy; only the numbers of
//     slots depend on what was placed before.
// Not to be shared between threads.
class TaskGraph {
 public:
  // Keeps the pointer, which must outlive it.
  explicit TaskGraph(const ConnectionGraph* connections);

  void PlaceAll(const StrategyState& now);
  void Place(const TouchedBlocks& touched, const StrategyState& now);
  // The operators' tasks alone, whose connections have not changed.
  void PlaceOps(const StrategyState& now);
  // Leads all routes to the strategy's lists, where these have moved.
  void LinkAll(const StrategyState& now);
  // Until the operator is placed again.
  void SetBusy(BlockKind kind, uint32_t op, uint32_t part, Nanos busy) {
    tasks_[kind == BlockKind::kForward ? forward_base(op) + part : backward_base(op) + part].busy =
        busy;
  }
  // Makes a run that was given up as if it had not been.
  void ResetStates() {
    for (TaskState& state : states_) state = {0, state.waits, state.waits};
  }

  // All that follows: of what was placed. A base is a block's first slot.
  uint32_t forward_base(uint32_t op) const { return blocks_[op].base; }
  uint32_t backward_base(uint32_t op) const { return blocks_[ops_ + edges_ + op].base; }
  uint32_t transfer_base(uint32_t edge) const { return blocks_[ops_ + edge].base; }
  uint32_t gradient_base(uint32_t edge) const { return blocks_[2 * ops_ + edges_ + edge].base; }
  uint32_t sync_base(uint32_t group) const { return blocks_[2 * ops_ + 2 * edges_ + group].base; }
  uint32_t parts(uint32_t op) const { return blocks_[op].size; }

  size_t slots() const { return slots_; }
  size_t task_count() const { return task_count_; }
  const Task* tasks() const { return tasks_.data(); }   // by slot
  std::vector<TaskState>& states() { return states_; }  // by slot
  const std::vector<TaskState>& states() const { return states_; }
  // By place in the connections' out().ends and in().ends.
  const Route& route_out(size_t place) const { return routes_out_[place]; }
  const Route& route_in(size_t place) const { return routes_in_[place]; }

 private:
  struct Block {
    uint32_t base = 0, size = 0, capacity = 0;  // size: tasks; joins are behind them
  };
  uint32_t ForwardBlock(uint32_t op) const { return op; }
  uint32_t TransferBlock(uint32_t edge) const { return ops_ + edge; }
  uint32_t BackwardBlock(uint32_t op) const { return ops_ + edges_ + op; }
  uint32_t GradientBlock(uint32_t edge) const { return 2 * ops_ + edges_ + edge; }
  uint32_t SyncBlockOf(uint32_t group) const { return 2 * ops_ + 2 * edges_ + group; }

  bool Outgrows(uint32_t block, size_t size);
  bool OutgrowsOp(uint32_t op, const StrategyState& now);
  bool OutgrowsEdge(uint32_t edge, const StrategyState& now);
  void PlaceOp(uint32_t op, const StrategyState& now);
  void PlaceEdge(uint32_t edge, const StrategyState& now);
  void PlaceTasks(const CommTasks& tasks, uint32_t block, BlockKind kind, uint32_t of);
  void LinkSuccessors(uint32_t op, const StrategyState& now);

  const ConnectionGraph* connections_;
  const uint32_t ops_, edges_;
  std::vector<Block> blocks_;
  std::vector<TaskState> states_;
  std::vector<Task> tasks_;
  std::vector<Route> routes_out_, routes_in_;
  size_t slots_ = 0, task_count_ = 0;
};

}  // namespace soapstone::planner
