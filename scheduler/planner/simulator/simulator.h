// The execution simulator: how long a training step takes under a strategy. Searchers set
// strategies, propose changes, accept or reject them; reports read the parts of a step's time and
// its timeline. Values in, integers out: no clock, no thread.
//
// The task graph. Every part of an operator is a forward and a backward task on its device. A part
// waits for the parts whose output it reads: directly on its own device, else behind a transfer
// (comm_block.h). Gradients flow back the same ways. When the last backward part of a weight group
// on a device is over, its gradients are synchronized (sync_block.h) while others still compute.
//
// The timeline. r(t) is when a task may begin: the greatest of the ends of what it waits for. A
// task uses one queue or several (devices, links, servers), each of which serves in the order of
// (r, id): with u a queue's use by t, o(u) its offset and q(u) what follows it (comm_block.h; 0 for
// computation),
//   s(u) = max(r(t) + o(u), end of the use before u in the queue),   e(u) = s(u) + busy(u)
// and what waits for a flow of t hears of it at the greatest e(u) + q(u) of the flow. Times are
// whole nanoseconds, busy at least 1. Ids order by (block, index): blocks are operators, edges and
// groups in the graph's order, so that ids do not depend on how a strategy was reached.
// These equations have one solution. Proof: let two differ, and let t have the least (r, id) in
// either among tasks whose times differ, say in the first. What t waits for ended after it might
// begin, as busy is at least 1, so it is of lesser key than t and equal in both; so r(t) is equal.
// The uses before t's in its queues have lesser keys, are equal in both, and no other is before it
// in the second (its key there would be less than t's, so it would be equal in both); so s and e
// are equal: a contradiction. Hence whatever repairs a timeline until all equations hold gives the
// full simulation's bits.
//
// Pipelines. In a graph in micro-batches, and where iterations overlap under staleness, devices
// finish first what was begun first, as GPipe (Huang et al. 2019) and PipeDream's 1F1B (Narayanan
// et al. 2019, section 3.2) do; links and servers serve as above. Whenever a device is free it
// serves to its end, of its tasks t with r(t) ≤ now, that of the least
//   (iteration, micro-batch, r, id)
// where applications of gradients are of the last micro-batch; if there are none it waits.
// Time defines one timeline. Proof: let all that starts before T be known. As busy is at least 1, a
// task with r = T waited for nothing that starts later, so all tasks with r ≤ T are known; so are
// the uses of links and servers by them, as no other has a lesser key, and which devices are free
// at T and what they choose, as the order is total. Times are whole: by induction all is known.
// With one iteration and one micro-batch it is the timeline above: the least (r, id) among the
// tasks that are ready is the least among all that were not served.
//
// Memory bounds how many micro-batches are under way: as many as fit on every device (w), and one
// at least. The first tasks of micro-batch j, which wait for no other, may begin when all backward
// tasks of micro-batches 0 to j − w have ended, hence when those have let go of what they held. It
// is PipeDream's 1F1B where w is the number of stages, and GPipe's order where all fit. Proof as
// above: whatever sets them free has ended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "scheduler/planner/cost/cost_model.h"
#include "scheduler/planner/simulator/comm_block.h"
#include "scheduler/planner/simulator/device_queues.h"
#include "scheduler/planner/simulator/equivalence_classes.h"
#include "scheduler/planner/simulator/event_queue.h"
#include "scheduler/planner/simulator/op_split.h"
#include "scheduler/planner/simulator/sync_block.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

// Longer than any step.
inline constexpr Nanos kNever = INT64_MAX;

struct SimulatorOptions {
  int64_t segment_bytes = 0;            // comm_block.h
  double optimizer_floats = 0;          // state kept by element of a parameter: 1 momentum, 2 adam
  int64_t moved_bytes_max = INT64_MAX;  // of all messages of a step
};

// How computation varies from step to step: log-normally, by a factor of mean 1.
struct Jitter {
  double sigma = 0.1;  // of the factor's logarithm
  uint32_t samples = 200;
  uint64_t seed = 1;
};

struct Change {
  uint32_t op = 0;
  OpConfig config;
};

// Of a weight group that has parameters: who keeps it from now on, as in Strategy::servers.
struct ServerChange {
  uint32_t group = 0;
  std::vector<uint32_t> servers;
};

// A step's time and what it is made of.
struct Breakdown {
  Nanos step_ns = 0;
  Nanos compute_ns = 0;  // of the device that computes longest
  Nanos exposed_ns = 0;  // step_ns − compute_ns: communication, synchronization, waiting
  int64_t transfer_bytes = 0, sync_bytes = 0;  // sent between operators; for synchronization
  std::vector<Nanos> busy_ns;                  // by queue: devices, links, servers
  std::vector<int64_t> memory_bytes;           // by device
  uint32_t in_flight = 1;                      // micro-batches under way at most
};

enum class TaskKind : uint8_t { kForward, kBackward, kTransfer, kGradient, kSynchronize };

// What a task of the timeline does to one queue. Of kForward and kBackward: operator and part; of
// kTransfer and kGradient: edge (the first between its operators) and task; of kSynchronize: group
// and task.
struct TimelineTask {
  TaskKind kind = TaskKind::kForward;
  uint32_t of = 0, index = 0;
  uint32_t resource = 0;
  Nanos ready = 0, start = 0, end = 0;
  friend bool operator==(const TimelineTask&, const TimelineTask&) = default;
};

// How proposals were decided.
struct ProposalCounts {
  uint64_t proposed = 0;
  // Rejected without simulation; remembered: known to be longer from before.
  uint64_t remembered = 0, by_compute = 0, by_path = 0, by_memory = 0, by_load = 0;
  uint64_t aborted = 0;    // in it
  uint64_t simulated = 0;  // to the end

  ProposalCounts& operator+=(const ProposalCounts& other) {
    proposed += other.proposed;
    remembered += other.remembered;
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
  // Of the same graph, machine, costs and options, without a strategy.
  std::unique_ptr<Simulator> CloneEmpty() const;

  // Errors: as of CheckStrategy.
  absl::Status SetStrategy(const Strategy& strategy);
  // REQUIRES from here on: a strategy is set.
  Strategy strategy() const;
  const OpConfig& config(uint32_t op) const { return ops_[op]->config; }
  Synchronization synchronization() const { return strategy_.synchronization; }
  const std::vector<uint32_t>& servers(uint32_t group) const { return strategy_.servers[group]; }
  // Bytes of the group's parameters on all devices together: what they push.
  int64_t HeldBytes(uint32_t group) const;

  // Of one step with its synchronization, from the first task's start to the last one's end. Kept
  // until the strategy changes. kNever: longer than the key's bits hold (minutes).
  Nanos StepTime();
  // Runs the whole timeline anew, whatever is known of it.
  Nanos Simulate();
  // Of an iteration among many, under the strategy's staleness s. The s + 1 that run together come
  // and go in step, so the mean is over a multiple of them, W of at least 32, behind A = max(8, s +
  // 1) that fill the queues, and before s + 1 that keep them filled: (end_{A+W} − end_A)/W. When A
  // ends, more may be done of those behind it than when A + W ends, and the mean then is short of
  // the busiest queue's load, which no mean over many can be: it is that load at least. s = 0:
  // StepTime().
  Nanos IterationTime();

  // Of so many steps with jitter, in the order in which they were drawn.
  std::vector<Nanos> SampleStepTimes(const Jitter& jitter);

  // Bytes over the devices' memory, all devices together, and over moved_bytes_max: 0 where the
  // strategy can run. Counted: outputs of forward tasks and what is received for them, until their
  // backward, of the micro-batches that are under way; parameters, their gradients, optimizer
  // state, and a copy for each step of staleness.
  int64_t Overflow() const { return overflow_; }
  // How many micro-batches of a step are under way at most; all of them, where they fit.
  uint32_t in_flight() const { return in_flight_; }
  Breakdown Explain();
  // By task in the order in which tasks may begin; of a graph in micro-batches, devices' tasks in
  // that in which they are chosen.
  std::vector<TimelineTask> Timeline();

  // The step time with these changes, if it is at most `cutoff` and nothing overflows, or no more
  // than now; or if less overflows than now, however long it takes; else kNever, as early as that
  // is known. REQUIRES: each config passes CheckConfig, no operator twice; what servers keep as
  // CheckStrategy wants it, no group twice; then Accept or Reject before anything else.
  Nanos Propose(absl::Span<const Change> changes, Nanos cutoff,
                absl::Span<const ServerChange> servers = {});
  void Accept();
  void Reject();

  // Whether bounds and cutoffs are used before a timeline is complete. Without, Propose decides the
  // same.
  void set_early_rejection(bool on) { early_rejection_ = on; }
  const ProposalCounts& counts() const { return counts_; }
  void AddCounts(const ProposalCounts& counts) { counts_ += counts; }
  size_t tasks() const { return task_count_; }  // of the current strategy

 private:
  // An operator in one configuration; kept, and looked up for its whole class.
  struct OpState {
    OpConfig config;
    const OpSplit* split = nullptr;
    uint32_t id = 0;                       // among those of the class
    uint64_t hash[2] = {0, 0};             // of the configuration
    std::vector<Nanos> forward, backward;  // busy times by part, with exchanges
    Nanos forward_min = 0, forward_max = 0, backward_min = 0, backward_max = 0;
  };
  // The places of a block's tasks in the arrays by slot. They stay where they are but when a block
  // outgrows its own.
  struct Block {
    uint32_t base = 0, size = 0, capacity = 0;  // size: tasks; joins are behind them
  };
  struct TaskState {
    Nanos ready = 0;
    uint32_t missing = 0, waits = 0;  // how many are not over yet; of how many
  };
  enum class BlockKind : uint8_t { kForward, kTransfer, kBackward, kGradient, kSync };
  // Of a run: when it is free, and when it is at the earliest once it has served all that there is.
  struct Queue {
    Nanos free = 0, done = 0;
  };
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
    uint32_t of() const { return role >> 4; }  // operator, edge, group
  };
  // All edges from one operator to another whose gradients flow back, or do not: they are sent
  // together.
  struct Connection {
    uint32_t from = 0, to = 0;
    bool gradient = false;
    std::vector<uint32_t> edges;
    uint32_t equivalence_class = 0;  // of equivalent operators, with equivalent edges
    // Whatever the configurations: any part of the consumer reads some of it; any part of the
    // producer is read.
    bool feeds_all = false, reads_all = false;
  };
  struct EdgeEnd {
    uint32_t edge = 0, other = 0;  // connection; operator
  };
  // Where what a part makes goes: of a connection's end, in the order of EdgeEnds.
  struct Route {
    const PartLists* lists = nullptr;  // nullptr: to the part of its number alone
    uint32_t parts = 0, tasks = 0;     // first slots
  };
  // Lists by operator, in one array.
  struct EdgeEnds {
    std::vector<uint32_t> begin;
    std::vector<EdgeEnd> ends;
    absl::Span<const EdgeEnd> of(uint32_t op) const {
      return {ends.data() + begin[op], begin[op + 1] - begin[op]};
    }
    void Set(const std::vector<std::vector<EdgeEnd>>& lists) {
      for (const std::vector<EdgeEnd>& list : lists) {
        begin.push_back(static_cast<uint32_t>(ends.size()));
        ends.insert(ends.end(), list.begin(), list.end());
      }
      begin.push_back(static_cast<uint32_t>(ends.size()));
    }
  };
  // What a proposal replaced.
  struct Undo {
    std::vector<std::pair<uint32_t, const OpState*>> ops;
    std::vector<std::pair<uint32_t, const EdgeBlock*>> edges;
    std::vector<std::pair<uint32_t, const SyncBlock*>> groups;
    std::vector<std::pair<uint32_t, std::vector<uint32_t>>> servers;
    uint64_t hash[2] = {0, 0};
    Nanos step = 0;
    bool step_known = false;
    int64_t overflow = 0;
    uint32_t in_flight = 1;
    bool placed = false;  // blocks were replaced
  };
  // What is known of a strategy: its step takes at least so long.
  struct Memory {
    uint64_t hash[2] = {0, 0};
    Nanos at_least = 0;
  };
  struct ConfigHash {
    size_t operator()(const OpConfig& config) const;
  };

  uint32_t ForwardBlock(uint32_t op) const { return op; }
  uint32_t TransferBlock(uint32_t edge) const { return n_ + edge; }
  uint32_t BackwardBlock(uint32_t op) const { return n_ + e_ + op; }
  uint32_t GradientBlock(uint32_t edge) const { return 2 * n_ + e_ + edge; }
  uint32_t SyncBlockOf(uint32_t group) const { return 2 * n_ + 2 * e_ + group; }
  uint32_t BlockCount() const { return 2 * n_ + 2 * e_ + g_; }

  // simulator.cc: the strategy's state
  void MakeConnections();
  const OpState* FindOp(uint32_t op, const OpConfig& config);
  const EdgeBlock* FindEdge(uint32_t edge);
  const SyncBlock* FindSync(uint32_t group);
  void FindAll(absl::Span<const OpConfig> configs);
  void FlushFullCaches();
  void CollectTouched(absl::Span<const Change> changes, absl::Span<const ServerChange> servers);
  void SwapOps(absl::Span<const Change> changes);
  void SwapBlocks();
  void ForgetUndo();
  void AddCompute(uint32_t op, const OpState& state, int sign);
  void AddEdge(uint32_t edge, const EdgeBlock& block, int sign);
  void AddSync(const SyncBlock& sync, int sign);
  bool LoadsAllow(Nanos cutoff) const;
  // shard_placement.cc: who keeps what
  void HashServers(uint32_t group);
  void SwapServers(absl::Span<const ServerChange> changes);
  void TakeServersBack();
  // simulator_memory.cc
  void AddMemory(uint32_t device, uint32_t micro_batch, int64_t bytes);
  int64_t MemoryOf(uint32_t device, uint32_t in_flight) const;
  void FindOverflow();

  Memory& Remembered() { return memories_[hash_[0] & (memories_.size() - 1)]; }

  // placing.cc: tasks in their slots
  size_t SizeOf(uint32_t block) const;
  bool Outgrows(uint32_t block);
  void PlaceAll();
  void PlaceTouched();
  void PlaceOp(uint32_t op);
  void LinkSuccessors(uint32_t op);
  void PlaceTasks(const CommTasks& tasks, uint32_t block, BlockKind kind, uint32_t of);

  // bounds.cc
  void FindReach(Connection* connection) const;
  Nanos PathBound();
  Nanos DeviceBound();

  // timeline_run.h
  template <bool kOrdered, bool kMany, bool kBounded>
  class Run;
  bool in_micro_batches() const { return graph_->micro_batches > 1; }

  // timeline.cc, ordered_timeline.cc
  Nanos SimulateUpTo(Nanos cutoff);
  Nanos SimulateInOrder(Nanos cutoff);

  const OpGraph* graph_;
  const Machine* machine_;
  const CostModel* costs_;
  SimulatorOptions options_;
  EquivalenceClasses classes_;
  SplitTable splits_;
  BlockBuilder builder_;
  SyncBuilder sync_builder_;
  uint32_t n_, e_ = 0, g_;  // operators, connections, groups
  std::vector<Connection> connections_;
  EdgeEnds in_, out_;
  std::vector<bool> group_has_params_;

  Strategy strategy_;  // all but configurations; servers of each group
  std::vector<const OpState*> ops_;
  std::vector<const EdgeBlock*> edges_;
  std::vector<const SyncBlock*> syncs_;
  std::vector<uint32_t> group_of_;  // by operator: the group of its parameters; UINT32_MAX: none
  uint64_t hash_[2] = {0, 0};       // of all operators and their configurations, and servers
  // By class.
  std::vector<absl::flat_hash_map<OpConfig, std::unique_ptr<OpState>, ConfigHash>> op_cache_;
  std::vector<absl::flat_hash_map<uint64_t, std::unique_ptr<EdgeBlock>>> edge_cache_;
  std::vector<absl::flat_hash_map<std::vector<uint32_t>, std::unique_ptr<SyncBlock>>> sync_cache_;
  std::vector<std::unique_ptr<OpState>> spare_ops_;
  std::vector<std::unique_ptr<EdgeBlock>> spare_edges_;
  std::vector<std::unique_ptr<SyncBlock>> spare_syncs_;
  size_t cached_words_ = 0;
  std::vector<Memory> memories_;

  std::vector<Nanos> compute_load_;  // by device
  std::vector<Nanos> comm_load_;     // by resource, appliers included
  std::vector<int64_t> memory_;      // by device, were all micro-batches under way
  // [device · micro-batches + micro-batch] outputs and what is received; of several.
  std::vector<int64_t> activations_;
  std::vector<uint32_t> first_ops_;  // by micro-batch, and their number behind
  uint32_t in_flight_ = 1;
  int64_t transfer_bytes_ = 0, sync_bytes_ = 0, overflow_ = 0;
  Nanos step_ = kNever;
  bool step_known_ = false;

  std::vector<Block> blocks_;
  std::vector<TaskState> states_;              // by slot
  std::vector<Task> tasks_;                    // by slot
  std::vector<uint32_t> batch_sizes_;          // by slot: tasks of a batch that begins there
  std::vector<Nanos> part_ends_;               // of a batch
  std::vector<Route> routes_out_, routes_in_;  // by place in out_.ends, in_.ends
  size_t slots_ = 0, task_count_ = 0;

  EventQueue queue_;
  DeviceQueues waiting_;             // of runs in which devices serve by micro-batch
  std::vector<Queue> queues_;        // by resource
  std::vector<Nanos> compute_left_;  // by device, with what follows its last backward task
  std::vector<Nanos> tail_forward_, tail_backward_, head_forward_, head_backward_;  // by operator
  std::vector<Nanos> device_head_, device_tail_;                                    // by device
  std::vector<TimelineTask>* record_ = nullptr;

  bool pending_ = false;
  Undo undo_;
  std::vector<uint32_t> touched_edges_, touched_groups_, touched_ops_, changed_, sync_key_;
  std::vector<SyncBuilder::Member> members_;
  std::vector<const std::vector<Overlap>*> overlaps_;
  std::vector<uint8_t> mark_;
  bool early_rejection_ = true;
  ProposalCounts counts_;
};

}  // namespace soapstone::planner
