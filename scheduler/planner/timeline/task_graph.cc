#include "scheduler/planner/timeline/task_graph.h"

#include <algorithm>

namespace soapstone::planner {
namespace {

constexpr uint32_t kSmallestBlock = 2;

}  // namespace

TaskGraph::TaskGraph(const ConnectionGraph* connections)
    : connections_(connections),
      ops_(connections->ops()),
      edges_(connections->edges()),
      blocks_(2 * ops_ + 2 * edges_ + connections->groups()),
      routes_out_(edges_),
      routes_in_(edges_) {}

// Makes room, in numbers: the slots move later.
bool TaskGraph::Outgrows(uint32_t block, size_t size) {
  if (size <= blocks_[block].capacity) return false;
  const auto wanted = static_cast<uint32_t>(size);
  blocks_[block].capacity = std::max(wanted + wanted / 2, kSmallestBlock);
  return true;
}

bool TaskGraph::OutgrowsOp(uint32_t op, const StrategyState& now) {
  const size_t parts = now.op(op).split->parts;
  const bool forward = Outgrows(ForwardBlock(op), parts);
  const bool backward = Outgrows(BackwardBlock(op), parts);
  return forward || backward;
}

bool TaskGraph::OutgrowsEdge(uint32_t edge, const StrategyState& now) {
  const bool transfers = Outgrows(TransferBlock(edge), now.edge(edge).forward.slots());
  const bool gradients = Outgrows(GradientBlock(edge), now.edge(edge).backward.slots());
  return transfers || gradients;
}

void TaskGraph::PlaceAll(const StrategyState& now) {
  const uint32_t groups = connections_->groups();
  for (uint32_t op = 0; op < ops_; ++op) OutgrowsOp(op, now);
  for (uint32_t edge = 0; edge < edges_; ++edge) OutgrowsEdge(edge, now);
  for (uint32_t group = 0; group < groups; ++group) {
    Outgrows(SyncBlockOf(group), now.sync(group).tasks.slots());
  }
  slots_ = task_count_ = 0;
  for (Block& block : blocks_) {
    block.base = static_cast<uint32_t>(slots_);
    block.size = 0;
    slots_ += block.capacity;
  }
  states_.assign(slots_, TaskState());
  tasks_.assign(slots_, Task());
  PlaceOps(now);
  LinkAll(now);
  for (uint32_t edge = 0; edge < edges_; ++edge) PlaceEdge(edge, now);
  for (uint32_t group = 0; group < groups; ++group) {
    PlaceTasks(now.sync(group).tasks, SyncBlockOf(group), BlockKind::kSync, group);
  }
}

void TaskGraph::Place(const TouchedBlocks& touched, const StrategyState& now) {
  bool moves = false;
  for (uint32_t op : touched.ops()) moves |= OutgrowsOp(op, now);
  for (uint32_t edge : touched.edges()) moves |= OutgrowsEdge(edge, now);
  for (uint32_t group : touched.groups()) {
    moves |= Outgrows(SyncBlockOf(group), now.sync(group).tasks.slots());
  }
  if (moves) return PlaceAll(now);
  for (uint32_t op : touched.ops()) {
    PlaceOp(op, now);
    LinkSuccessors(op, now);
  }
  for (uint32_t edge : touched.edges()) PlaceEdge(edge, now);
  for (uint32_t group : touched.groups()) {
    PlaceTasks(now.sync(group).tasks, SyncBlockOf(group), BlockKind::kSync, group);
  }
}

void TaskGraph::PlaceOps(const StrategyState& now) {
  for (uint32_t op = 0; op < ops_; ++op) PlaceOp(op, now);
}

void TaskGraph::LinkAll(const StrategyState& now) {
  for (uint32_t op = 0; op < ops_; ++op) LinkSuccessors(op, now);
}

void TaskGraph::PlaceEdge(uint32_t edge, const StrategyState& now) {
  PlaceTasks(now.edge(edge).forward, TransferBlock(edge), BlockKind::kTransfer, edge);
  PlaceTasks(now.edge(edge).backward, GradientBlock(edge), BlockKind::kGradient, edge);
}

void TaskGraph::PlaceTasks(const CommTasks& tasks, uint32_t block, BlockKind kind, uint32_t of) {
  Block& place = blocks_[block];
  const auto size = static_cast<uint32_t>(tasks.tasks.size());
  task_count_ += size;
  task_count_ -= place.size;
  place.size = size;
  TaskState* state = states_.data() + place.base;
  for (uint32_t i = 0; i < size; ++i) {
    *state++ = {0, tasks.tasks[i].waits, tasks.tasks[i].waits};
    tasks_[place.base + i].role = Task::RoleOf(kind, of);
  }
  for (const JoinNode& join : tasks.joins) *state++ = {0, join.waits, join.waits};
}

void TaskGraph::PlaceOp(uint32_t op, const StrategyState& now) {
  const OpState& state = now.op(op);
  const uint32_t parts = state.split->parts;
  Block& forward = blocks_[ForwardBlock(op)];
  Block& backward = blocks_[BackwardBlock(op)];
  task_count_ += 2 * size_t{parts};
  task_count_ -= forward.size + backward.size;
  forward.size = backward.size = parts;
  TaskState* const before = states_.data() + forward.base;
  TaskState* const behind = states_.data() + backward.base;
  for (uint32_t part = 0; part < parts; ++part) before[part] = behind[part] = {};
  for (const EdgeEnd& end : connections_->in().of(op)) {
    const EdgeBlock& edge = now.edge(end.edge);
    for (uint32_t part = 0; part < parts; ++part) before[part].waits += edge.forward_waits[part];
  }
  for (const EdgeEnd& end : connections_->out().of(op)) {
    const EdgeBlock& edge = now.edge(end.edge);
    for (uint32_t part = 0; part < parts; ++part) behind[part].waits += edge.backward_waits[part];
  }
  Task* const runs = tasks_.data() + forward.base;
  Task* const turns = tasks_.data() + backward.base;
  for (uint32_t part = 0; part < parts; ++part) {
    const bool starts = behind[part].waits == 0;
    if (starts) behind[part].waits = 1;
    before[part].missing = before[part].waits;
    behind[part].missing = behind[part].waits;
    const uint32_t device = state.config.devices[part];
    runs[part] = {state.forward[part], device, Task::RoleOf(BlockKind::kForward, op, starts)};
    turns[part] = {state.backward[part], device, Task::RoleOf(BlockKind::kBackward, op)};
  }
}

void TaskGraph::LinkSuccessors(uint32_t op, const StrategyState& now) {
  const auto lists_of = [](const EdgeBlock& edge, const PartLists& lists) {
    return edge.one_to_one ? nullptr : &lists;
  };
  const EdgeEnds& out = connections_->out();
  for (uint32_t i = out.begin[op]; i < out.begin[op + 1]; ++i) {
    const auto [edge, other] = out.ends[i];
    const EdgeBlock& block = now.edge(edge);
    routes_out_[i] = {lists_of(block, block.forward_to), forward_base(other), transfer_base(edge)};
  }
  const EdgeEnds& in = connections_->in();
  for (uint32_t i = in.begin[op]; i < in.begin[op + 1]; ++i) {
    const auto [edge, other] = in.ends[i];
    const EdgeBlock& block = now.edge(edge);
    routes_in_[i] = {lists_of(block, block.backward_to), backward_base(other), gradient_base(edge)};
  }
}

}  // namespace soapstone::planner
