// Timeline finds when each task of a task graph begins and ends. Simulator asks for a step's, of a
// proposal's up to a cutoff, and for many iterations'; it knows nothing of proposals.
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
#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "scheduler/planner/blocks/connection_graph.h"
#include "scheduler/planner/blocks/strategy_state.h"
#include "scheduler/planner/timeline/bounds.h"
#include "scheduler/planner/timeline/device_queues.h"
#include "scheduler/planner/timeline/event_queue.h"
#include "scheduler/planner/timeline/loads.h"
#include "scheduler/planner/timeline/task_graph.h"
#include "scheduler/planner/timeline/timeline_task.h"

namespace soapstone::planner {

// Invariants:
//  1. A run is a function of strategy, task graph and loads: what runs before it did leaves no
//     trace, whether they went to their ends or not. It leaves the task graph's states as it found
//     them.
//  2. StepUpTo(c) is Step() where that is at most c; else kNever, or Step() where it was found out
//     at the end.
// Not to be shared between threads.
class Timeline {
 public:
  // Keeps the pointers, which must outlive it. `now`, `graph` and `loads` are of one strategy
  // whenever a run begins.
  Timeline(const StrategyState* now, TaskGraph* graph, const Loads* loads, const Bounds* bounds);

  // A step's end. kNever: longer than the keys' bits hold.
  Nanos Step();
  // kNever as soon as the step is known to be over the cutoff. REQUIRES that the bounds are of the
  // strategy's operators.
  Nanos StepUpTo(Nanos cutoff);
  // Of an iteration among many (Simulator::IterationTime). REQUIRES staleness
  Nanos Iteration();
  // As Step(); a step's tasks, in the order in which they are served by its run, until it is known
  // to be kNever.
  using Visitor = absl::FunctionRef<void(const TimelineTask& task)>;
  Nanos Visit(Visitor visit);
  // All of them; none where Step is kNever.
  std::vector<TimelineTask> Record();
  // The tasks of one of Iteration()'s, in steady state: times count from the first iteration's
  // start. None where it is kNever. REQUIRES staleness
  std::vector<TimelineTask> RecordIteration();
  // From now on runs without a cutoff ask it now and then, and end with kNever where it says so,
  // which gave_up() then says of the last one. nullptr: none asks. It must outlive them.
  void set_give_up(const std::function<bool()>* give_up) {
    give_up_ = give_up;
    gave_up_ = false;
  }
  bool gave_up() const { return gave_up_; }

 private:
  // Of a run: when it is free, and when it is at the earliest once it has served all that there is.
  struct Queue {
    Nanos free = 0, done = 0;
  };
  // What runs read; of the graph they count down the states.
  struct Sources {
    const ConnectionGraph& connections;
    const StrategyState& now;
    TaskGraph& graph;
    const Loads& loads;
    const Bounds& bounds;
  };
  // timeline_run.h
  template <bool kOrdered, bool kMany, bool kBounded>
  class Run;
  bool in_micro_batches() const { return in_.connections.micro_batches() > 1; }
  // ordered_timeline.cc
  Nanos StepInOrder(Nanos cutoff);

  const Sources in_;
  bool GiveUp() { return gave_up_ = give_up_ != nullptr && *give_up_ && (*give_up_)(); }

  const Visitor* visit_ = nullptr;
  uint32_t visited_ = 0;  // the iteration of those that overlap
  const std::function<bool()>* give_up_ = nullptr;
  bool gave_up_ = false;
  // Memory of runs.
  EventQueue queue_;
  DeviceQueues waiting_;               // where devices serve by micro-batch
  std::vector<Queue> queues_;          // by resource
  std::vector<uint32_t> batch_sizes_;  // by slot: tasks of a batch that begins there
  std::vector<Nanos> part_ends_;       // of a batch
  std::vector<Nanos> compute_left_;    // by device, with what follows its last backward task
};

}  // namespace soapstone::planner
