// Simulator finds how long a training step takes under a strategy. Searchers set strategies,
// propose changes, accept or reject them; reports read the parts of a step's time and its timeline.
// Values in, integers out: no clock, no thread.
//
// It wires parts, each of which does one thing and has its own invariants:
//   ConnectionGraph     the graph, before any strategy
//   BlockCache          what follows from configurations, found once for each equivalence class
//   StrategyState       the strategy: operators' states, connections' and groups' blocks, its hash
//   Loads               what it asks of devices, links and memory (device_memory.h)
//   TaskGraph           its tasks, in slots
//   Bounds              what a step takes at least
//   Timeline            when each task begins and ends, with the proof that there is one answer
//   Proposal            a change of the strategy, and the way back
//   TranspositionTable  what is known of strategies met before
// What is in use (StrategyState) is apart from what is kept (BlockCache), since the one changes
// with each proposal and the other only grows. What has an invariant of its own that can be checked
// alone is a class of its own: keys and window of a run, what a change touches, the reach of
// connections.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scheduler/planner/blocks/block_cache.h"
#include "scheduler/planner/blocks/change.h"
#include "scheduler/planner/blocks/connection_graph.h"
#include "scheduler/planner/blocks/strategy_state.h"
#include "scheduler/planner/cost/cost_model.h"
#include "scheduler/planner/simulator/proposal.h"
#include "scheduler/planner/simulator/transposition_table.h"
#include "scheduler/planner/timeline/bounds.h"
#include "scheduler/planner/timeline/loads.h"
#include "scheduler/planner/timeline/task_graph.h"
#include "scheduler/planner/timeline/timeline.h"
#include "scheduler/planner/timeline/timeline_task.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

struct SimulatorOptions {
  int64_t segment_bytes = 0;            // comm_block.h
  double optimizer_floats = 0;          // state kept by element of a parameter: 1 momentum, 2 adam
  double memory_share = 1;              // of devices' memory, for what is counted (Overflow)
  int64_t moved_bytes_max = INT64_MAX;  // of all messages of a step
  bool rings_by_ranges = false;         // as workers run them; else hop by hop (sync_block.h)
};

// How computation varies from step to step: log-normally, by a factor of mean 1.
struct Jitter {
  double sigma = 0.1;  // of the factor's logarithm
  uint32_t samples = 200;
  uint64_t seed = 1;
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

// Invariants:
//  1. Between SetStrategy, Accept or Reject and the next proposal all parts are of one strategy,
//  and
//     give what those of a new simulator give that is set to it, bit for bit.
//  2. Of two proposals in a row one was accepted or rejected before the other; a rejected one has
//     left no trace but what is known.
// Not to be shared between threads; CloneEmpty gives another thread one of its own.
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

  // give_up: asked now and then; empty: never. Errors: as of CheckStrategy; DeadlineExceeded: it
  // said so, and no strategy is set.
  absl::Status SetStrategy(const Strategy& strategy, const std::function<bool()>& give_up = {});
  // REQUIRES from here on: a strategy is set.
  Strategy strategy() const { return now_.strategy(); }
  const OpConfig& config(uint32_t op) const { return now_.op(op).config; }
  Synchronization synchronization() const { return now_.synchronization(); }
  const std::vector<uint32_t>& servers(uint32_t group) const { return now_.servers(group); }
  // Bytes of the group's parameters on all devices together: what they push.
  int64_t HeldBytes(uint32_t group) const { return now_.HeldBytes(group); }

  // Of one step with its synchronization, from the first task's start to the last one's end. Kept
  // until the strategy changes. kNever: longer than the key's bits hold (minutes).
  Nanos StepTime();
  // StepTime(); DeadlineExceeded as soon as give_up, asked now and then, says so. Empty: never.
  absl::StatusOr<Nanos> StepTimeUnless(const std::function<bool()>& give_up);
  // Runs the whole timeline anew, whatever is known of it.
  Nanos Simulate() { return timeline_.Step(); }
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
  int64_t Overflow() const { return loads_.fit().overflow; }
  // What is counted of a device, were so many micro-batches under way at once.
  int64_t CountedBytes(uint32_t device, uint32_t in_flight) const {
    return loads_.HeldBytes(device, in_flight);
  }
  // How many micro-batches of a step are under way at most; all of them, where they fit.
  uint32_t in_flight() const { return loads_.fit().in_flight; }
  Breakdown Explain();
  // By task in the order in which tasks may begin; of a graph in micro-batches, devices' tasks in
  // that in which they are chosen.
  std::vector<TimelineTask> Timeline() { return timeline_.Record(); }
  // Of IterationTime: the tasks of one iteration among many. Without staleness Timeline().
  std::vector<TimelineTask> IterationTimeline() {
    return now_.staleness() == 0 ? timeline_.Record() : timeline_.RecordIteration();
  }
  // Task by task, where all of them would be more than there is room or time for: a thousand
  // devices have millions. kNever: there were some all the same.
  Nanos VisitTimeline(planner::Timeline::Visitor visit) { return timeline_.Visit(visit); }
  const std::vector<Nanos>& compute_ns() const { return loads_.compute(); }  // by device

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
  size_t tasks() const { return tasks_.task_count(); }  // of the current strategy

 private:
  // What CloneEmpty needs again.
  struct Inputs {
    const OpGraph* graph;
    const Machine* machine;
    const CostModel* costs;
    SimulatorOptions options;
  };
  // In the order in which they are found: what is cheap first.
  bool IsTooLong(Nanos cutoff);

  const Inputs inputs_;
  const ConnectionGraph connections_;
  BlockCache cache_;
  StrategyState now_;
  Loads loads_;
  TaskGraph tasks_;
  Bounds bounds_;
  planner::Timeline timeline_;
  Proposal proposal_;
  TranspositionTable known_;
  // Of the strategy, where it is known; and as it was before what is proposed.
  std::optional<Nanos> step_, step_before_;
  bool early_rejection_ = true;
  ProposalCounts counts_;
};

}  // namespace soapstone::planner
