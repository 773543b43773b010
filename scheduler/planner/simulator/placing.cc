// Where the simulator keeps the tasks of a strategy: in arrays by slot, which its blocks share out.
#include <algorithm>

#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {
namespace {

constexpr uint32_t kSmallestBlock = 2;

}  // namespace

size_t Simulator::SizeOf(uint32_t block) const {
  if (block < n_) return ops_[block]->split->parts;
  block -= n_;
  if (block < e_) return edges_[block]->forward.slots();
  block -= e_;
  if (block < n_) return ops_[block]->split->parts;
  block -= n_;
  if (block < e_) return edges_[block]->backward.slots();
  return syncs_[block - e_]->tasks.slots();
}

// Makes room, in numbers: the slots move later.
bool Simulator::Outgrows(uint32_t block) {
  const auto size = static_cast<uint32_t>(SizeOf(block));
  if (size <= blocks_[block].capacity) return false;
  blocks_[block].capacity = std::max(size + size / 2, kSmallestBlock);
  return true;
}

void Simulator::PlaceAll() {
  slots_ = task_count_ = 0;
  for (uint32_t block = 0; block < BlockCount(); ++block) {
    Outgrows(block);
    blocks_[block].base = static_cast<uint32_t>(slots_);
    blocks_[block].size = 0;
    slots_ += blocks_[block].capacity;
  }
  states_.assign(slots_, TaskState());
  tasks_.assign(slots_, Task());
  for (uint32_t op = 0; op < n_; ++op) {
    PlaceOp(op);
    LinkSuccessors(op);
  }
  for (uint32_t edge = 0; edge < e_; ++edge) {
    PlaceTasks(edges_[edge]->forward, TransferBlock(edge), BlockKind::kTransfer, edge);
    PlaceTasks(edges_[edge]->backward, GradientBlock(edge), BlockKind::kGradient, edge);
  }
  for (uint32_t group = 0; group < g_; ++group) {
    PlaceTasks(syncs_[group]->tasks, SyncBlockOf(group), BlockKind::kSync, group);
  }
}

// Of the touched operators, edges and groups.
void Simulator::PlaceTouched() {
  bool moves = false;
  for (uint32_t op : touched_ops_) {
    moves |= Outgrows(ForwardBlock(op));
    moves |= Outgrows(BackwardBlock(op));
  }
  for (uint32_t edge : touched_edges_) {
    moves |= Outgrows(TransferBlock(edge));
    moves |= Outgrows(GradientBlock(edge));
  }
  for (uint32_t group : touched_groups_) moves |= Outgrows(SyncBlockOf(group));
  if (moves) return PlaceAll();
  for (uint32_t op : touched_ops_) {
    PlaceOp(op);
    LinkSuccessors(op);
  }
  for (uint32_t edge : touched_edges_) {
    PlaceTasks(edges_[edge]->forward, TransferBlock(edge), BlockKind::kTransfer, edge);
    PlaceTasks(edges_[edge]->backward, GradientBlock(edge), BlockKind::kGradient, edge);
  }
  for (uint32_t group : touched_groups_) {
    PlaceTasks(syncs_[group]->tasks, SyncBlockOf(group), BlockKind::kSync, group);
  }
}

void Simulator::PlaceTasks(const CommTasks& tasks, uint32_t block, BlockKind kind, uint32_t of) {
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

void Simulator::PlaceOp(uint32_t op) {
  const OpState& state = *ops_[op];
  const uint32_t parts = state.split->parts;
  Block& forward = blocks_[ForwardBlock(op)];
  Block& backward = blocks_[BackwardBlock(op)];
  task_count_ += 2 * size_t{parts};
  task_count_ -= forward.size + backward.size;
  forward.size = backward.size = parts;
  TaskState* const before = states_.data() + forward.base;
  TaskState* const behind = states_.data() + backward.base;
  for (uint32_t part = 0; part < parts; ++part) before[part] = behind[part] = {};
  for (const EdgeEnd& end : in_.of(op)) {
    const EdgeBlock& edge = *edges_[end.edge];
    for (uint32_t part = 0; part < parts; ++part) before[part].waits += edge.forward_waits[part];
  }
  for (const EdgeEnd& end : out_.of(op)) {
    const EdgeBlock& edge = *edges_[end.edge];
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

void Simulator::LinkSuccessors(uint32_t op) {
  const auto lists_of = [](const EdgeBlock& edge, const PartLists& lists) {
    return edge.one_to_one ? nullptr : &lists;
  };
  for (uint32_t i = out_.begin[op]; i < out_.begin[op + 1]; ++i) {
    const auto [edge, other] = out_.ends[i];
    routes_out_[i] = {lists_of(*edges_[edge], edges_[edge]->forward_to),
                      blocks_[ForwardBlock(other)].base, blocks_[TransferBlock(edge)].base};
  }
  for (uint32_t i = in_.begin[op]; i < in_.begin[op + 1]; ++i) {
    const auto [edge, other] = in_.ends[i];
    routes_in_[i] = {lists_of(*edges_[edge], edges_[edge]->backward_to),
                     blocks_[BackwardBlock(other)].base, blocks_[GradientBlock(edge)].base};
  }
}

}  // namespace soapstone::planner
