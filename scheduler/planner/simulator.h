// The execution simulator: how long a training step takes under a strategy. Searchers set
// strategies, propose changes, accept or reject them; reports read the parts of a step's time and
// its timeline. Values in, integers out: no clock, no thread.
//
// The task graph. Every part of an operator is a forward and a backward task on its device. A part
// waits for the parts whose output it reads: directly on its own device, else behind a transfer
// (comm_block.h). Gradients flow back the same ways. When the last backward part of a weight group
// on a device is over, its gradients are synchronized (sync_block.h) while others still compute.
//
// The timeline. With r(t), s(t), e(t) for a task's ready, start and end, and every queue (device,
// link, server) serving in the order of (r, id):
//   r(t) = max of the ends (and latencies) of what t waits for
//   s(t) = max(r(t), end of the task before t in its queue),   e(t) = s(t) + busy(t)
// (a hop also ends no earlier than its message's previous hop and latency). Times are whole
// nanoseconds, busy(t) and latencies at least 1. Ids order by (block, index): blocks are operators,
// edges and groups in the graph's order, so that ids do not depend on how a strategy was reached.
// These equations have one solution. Proof: let two differ, and let t have the least
// (r, id) in either among tasks whose (r, s, e) differ, say in the first. What t waits for started
// before r(t), as busy and latency are at least 1, so it was ready before r(t), is of lesser key,
// and is equal in both; so r(t) is equal. The tasks before t in its queue have lesser keys, are
// equal in both, and no other task is before t in the second (its key there would be less than t's,
// so it would be equal in both); so s(t) and e(t) are equal: a contradiction. Hence whatever
// repairs a timeline until all equations hold gives the full simulation's bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "scheduler/planner/comm_block.h"
#include "scheduler/planner/cost_model.h"
#include "scheduler/planner/event_queue.h"
#include "scheduler/planner/machine.h"
#include "scheduler/planner/op_graph.h"
#include "scheduler/planner/split.h"
#include "scheduler/planner/strategy.h"
#include "scheduler/planner/sync_block.h"

namespace soapstone::planner {

// Longer than any step.
inline constexpr Nanos kNever = INT64_MAX;

struct SimulatorOptions {
  int64_t segment_bytes = 0;    // comm_block.h
  double optimizer_floats = 0;  // state kept by element of a parameter: 1 momentum, 2 adam
};

struct Change {
  uint32_t op = 0;
  OpConfig config;
};

// A step's time and what it is made of.
struct Breakdown {
  Nanos step_ns = 0;
  Nanos compute_ns = 0;  // of the device that computes longest
  Nanos exposed_ns = 0;  // step_ns − compute_ns: communication, synchronization, waiting
  int64_t transfer_bytes = 0, sync_bytes = 0;  // sent between operators; for synchronization
  std::vector<Nanos> busy_ns;                  // by queue: devices, links, servers
  std::vector<int64_t> memory_bytes;           // by device
};

enum class TaskKind : uint8_t { kForward, kBackward, kTransfer, kGradient, kSynchronize };

// A task of the timeline. Of kForward and kBackward: operator and part; of kTransfer and kGradient:
// edge and hop; of kSynchronize: group and task.
struct TimelineTask {
  TaskKind kind = TaskKind::kForward;
  uint32_t of = 0, index = 0;
  uint32_t resource = kNoResource;
  Nanos ready = 0, start = 0, end = 0;
  friend bool operator==(const TimelineTask&, const TimelineTask&) = default;
};

// How proposals were decided.
struct ProposalCounts {
  uint64_t proposed = 0;
  uint64_t by_compute = 0, by_path = 0, by_memory = 0, by_load = 0;  // rejected without simulation
  uint64_t aborted = 0;                                              // in it
  uint64_t simulated = 0;                                            // to the end

  ProposalCounts& operator+=(const ProposalCounts& other) {
    proposed += other.proposed;
    by_compute += other.by_compute;
    by_path += other.by_path;
    by_memory += other.by_memory;
    by_load += other.by_load;
    aborted += other.aborted;
    simulated += other.simulated;
    return *this;
  }
};

class Simulator {
 public:
  // Keeps the pointers; they must outlive it. Asks `costs` once for each way to split an operator.
  Simulator(const OpGraph* graph, const Machine* machine, const CostModel* costs,
            SimulatorOptions options = {});
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  // Errors: as of CheckStrategy.
  absl::Status SetStrategy(const Strategy& strategy);
  // REQUIRES from here on: a strategy is set.
  Strategy strategy() const;
  const OpConfig& config(uint32_t op) const { return ops_[op].config; }

  // Of one step with its synchronization, from the first task's start to the last one's end. Kept
  // until the strategy changes. kNever: longer than the key's bits hold (minutes).
  Nanos StepTime();
  // Runs the whole timeline anew, whatever is known of it.
  Nanos Simulate();
  // Of an iteration among many, under the strategy's staleness s. The s + 1 that run together come
  // and go in step, so the mean is over a multiple of them, W of at least 4, behind A = max(4, s +
  // 1) that fill the queues, and before s + 1 that keep them filled: (end_{A+W} − end_A)/W. s = 0:
  // StepTime().
  Nanos IterationTime();

  // Bytes over the devices' memory, all devices together: 0 where the strategy can run. Counted:
  // outputs of forward tasks and what is received for them, until their backward; parameters, their
  // gradients, optimizer state, and a copy for each step of staleness.
  int64_t MemoryOverflow() const { return overflow_; }
  Breakdown Explain();
  std::vector<TimelineTask> Timeline();

  // The step time with these changes, if it is at most `cutoff` and memory holds (or, where it does
  // not, overflows no more than now); else kNever, as early as that is known. REQUIRES: each config
  // passes CheckConfig, no operator twice; then Accept or Reject before anything else.
  Nanos Propose(absl::Span<const Change> changes, Nanos cutoff);
  void Accept();
  void Reject();

  // Whether bounds and cutoffs are used before a timeline is complete. Without, Propose decides the
  // same.
  void set_early_rejection(bool on) { early_rejection_ = on; }
  const ProposalCounts& counts() const { return counts_; }
  size_t tasks() const { return tasks_; }  // of the current strategy

 private:
  struct OpState {
    OpConfig config;
    const Split* split = nullptr;
    uint32_t config_id = 0;
    std::vector<Nanos> forward, backward;  // busy times by part, with exchanges
    Nanos forward_min = 0, forward_max = 0, backward_min = 0, backward_max = 0;
  };
  // Where a block's tasks are in the arrays by slot.
  struct Block {
    uint32_t base = 0, size = 0, capacity = 0;
  };
  struct TaskState {
    Nanos ready = 0;
    uint32_t missing = 0;
  };
  struct TaskTimes {
    Nanos ready = 0, start = 0, end = 0;
  };
  enum class BlockKind : uint8_t { kForward, kTransfer, kBackward, kGradient, kSync };
  struct BlockRole {
    BlockKind kind;
    uint32_t of;
  };
  // Of an edge, whatever the configurations.
  struct EdgeReach {
    bool feeds_all = false;  // any part of the consumer reads some of it
    bool reads_all = false;  // any part of the producer is read
  };
  // What a proposal replaced.
  struct Undo {
    std::vector<std::pair<uint32_t, std::unique_ptr<OpState>>> ops;
    std::vector<std::pair<uint32_t, const EdgeBlock*>> edges;
    std::vector<std::pair<uint32_t, std::unique_ptr<SyncBlock>>> groups;
    std::vector<std::pair<uint32_t, Block>> blocks;
    Nanos step = 0;
    bool step_known = false;
    int64_t overflow = 0;
    bool placed = false;  // blocks were replaced
  };

  uint32_t ForwardBlock(uint32_t op) const { return op; }
  uint32_t TransferBlock(uint32_t edge) const { return n_ + edge; }
  uint32_t BackwardBlock(uint32_t op) const { return n_ + e_ + op; }
  uint32_t GradientBlock(uint32_t edge) const { return 2 * n_ + e_ + edge; }
  uint32_t SyncBlockOf(uint32_t group) const { return 2 * n_ + 2 * e_ + group; }
  uint32_t BlockCount() const { return 2 * n_ + 2 * e_ + g_; }

  // simulator.cc: the strategy's state
  void FillOp(uint32_t op, OpState* state);
  uint32_t InternConfig(uint32_t op, const OpState& state);
  const EdgeBlock* FindEdge(uint32_t edge);
  void FlushCaches();
  void BuildSync(uint32_t group, SyncBlock* block);
  void CollectTouched(absl::Span<const uint32_t> changed);
  void SwapOps(absl::Span<const Change> changes);
  void SwapBlocks();
  void ForgetUndo();
  void AddCompute(const OpState& op, int sign);
  void AddEdge(const EdgeBlock& edge, int sign);
  void AddSync(const SyncBlock& sync, int sign);
  int64_t FindOverflow() const;
  void PlaceTouched(absl::Span<const uint32_t> changed);
  void PlaceBlock(uint32_t block, size_t size);
  void ReleaseBlock(const Block& block);
  void SetWaits(const CommTasks& tasks, uint32_t block);
  void SetOpWaits(uint32_t op);
  bool LoadsAllow(Nanos cutoff) const;

  // bounds.cc
  std::vector<EdgeReach> FindReaches() const;
  Nanos PathBound();
  Nanos DeviceBound();

  // timeline.cc
  // In waits_, of a forward task: nothing else sets its backward task free.
  static constexpr uint32_t kStartsBackward = uint32_t{1} << 31;
  template <bool kMany>
  class Run;
  template <bool kMany>
  Nanos RunTimeline(Nanos cutoff, uint32_t iterations, std::vector<Nanos>* ends);

  const OpGraph* graph_;
  const Machine* machine_;
  SimulatorOptions options_;
  SplitTable splits_;
  BlockBuilder builder_;
  SyncBuilder sync_builder_;
  uint32_t n_, e_, g_;  // operators, edges, groups
  std::vector<EdgeReach> reach_;
  std::vector<BlockRole> roles_;  // by block
  std::vector<bool> group_has_params_;

  Strategy strategy_;  // all but configurations
  std::vector<OpState> ops_;
  std::vector<const EdgeBlock*> edges_;
  std::vector<std::unique_ptr<SyncBlock>> syncs_;
  std::vector<std::unique_ptr<OpState>> spare_ops_;
  std::vector<std::unique_ptr<SyncBlock>> spare_syncs_;
  std::vector<absl::flat_hash_map<uint64_t, std::unique_ptr<EdgeBlock>>> edge_cache_;
  std::vector<absl::flat_hash_map<std::vector<uint32_t>, uint32_t>> config_ids_;
  size_t cached_words_ = 0;

  std::vector<Nanos> compute_load_;  // by device
  std::vector<Nanos> comm_load_;     // by resource, appliers included
  std::vector<int64_t> memory_;      // by device
  int64_t transfer_bytes_ = 0, sync_bytes_ = 0, overflow_ = 0;
  Nanos step_ = kNever;
  bool step_known_ = false;

  std::vector<Block> blocks_;
  std::vector<std::vector<uint32_t>> free_blocks_;  // by log2 of capacity: bases
  std::vector<uint32_t> waits_;                     // by slot
  std::vector<TaskState> states_;                   // by slot, and iteration
  std::vector<TaskTimes> times_;                    // by slot
  size_t slots_ = 0, tasks_ = 0;
  std::vector<bool> starts_at_once_;  // by operator: some part waits for none

  EventQueue queue_;
  std::vector<Nanos> free_at_, left_;  // by resource
  std::vector<Nanos> compute_left_;    // by device, with what follows its last backward task
  std::vector<Nanos> tail_forward_, tail_backward_, head_forward_, head_backward_;  // by operator
  std::vector<Nanos> device_head_, device_tail_;                                    // by device
  uint32_t index_bits_ = 8, block_bits_ = 1;
  bool record_ = false;  // the timeline into times_

  bool pending_ = false;
  Undo undo_;
  std::vector<uint32_t> changed_, touched_edges_, touched_groups_, touched_ops_, intern_key_;
  std::vector<SyncBuilder::Member> members_;
  std::vector<uint8_t> mark_;
  bool early_rejection_ = true;
  ProposalCounts counts_;
};

}  // namespace soapstone::planner
