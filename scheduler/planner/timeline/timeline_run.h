// One run of a timeline, which has in timeline.h what it computes: tasks in the order in which they
// may begin (Jia et al. 2019, algorithm 1). Included by timeline.cc and ordered_timeline.cc.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "scheduler/planner/timeline/micro_batch_window.h"
#include "scheduler/planner/timeline/timeline.h"
#include "scheduler/planner/timeline/timeline_keys.h"

namespace soapstone::planner {

// One run: made, asked for its end once, and gone. Tasks come in the order of their keys
// (timeline_keys.h). kBounded: ends as soon as the last end is known to be over the cutoff.
// kOrdered: devices serve micro-batch by micro-batch, and keys of slots behind the tasks', one a
// device, are of when they choose: after all that is ready at that time. kMany: iterations overlap.
// Micro-batches that are not under way yet are begun when earlier ones are over.
//
// Batches. Tasks of one block in a row which may begin at one time have keys that follow each
// other, and what they set free may begin later, as busy is at least 1: one key stands for all of
// them, and they are served one after the other.
template <bool kOrdered, bool kMany, bool kBounded>
class Timeline::Run {
 public:
  Run(Timeline* timeline, Nanos cutoff, uint32_t iterations)
      : t_(*timeline),
        in_(timeline->in_),
        queue_(timeline->queue_),
        tasks_(in_.graph.tasks()),
        keys_(in_.graph.slots() + (kOrdered ? in_.loads.devices() : 0), kMany ? iterations : 0),
        cutoff_(cutoff) {
    many_.count = iterations;
  }

  // The last end, or kNever.
  Nanos Simulate(std::vector<Nanos>* ends) {
    Prepare();
    const uint32_t at_once = kMany ? std::min(in_.now.staleness() + 1, many_.count) : 1;
    for (uint32_t i = 0; i < at_once; ++i) PushSources(i, 0);
    // So that checks cost less than serving.
    const auto devices = static_cast<uint32_t>(in_.loads.devices());
    const auto checks = static_cast<uint32_t>(in_.loads.resources()) / devices;
    uint32_t until_devices = devices, until_queues = checks;
    uint32_t until_asked = 1;
    while (!queue_.empty()) {
      const uint64_t key = queue_.Pop();
      if constexpr (kOrdered) {
        Order(key);
      } else {
        Process(key);
      }
      if (late_) break;
      if (!kBounded && --until_asked == 0) {
        until_asked = kUnasked;
        late_ = t_.GiveUp();
      }
      if (kBounded && --until_devices == 0) {
        const Nanos now = keys_.ReadyOf(key);
        until_devices = devices;
        CheckDevices(now);
        if (--until_queues == 0) {
          until_queues = checks;
          CheckQueues(now);
        }
      }
    }
    if (late_) {
      if (!kMany) in_.graph.ResetStates();
      return kNever;
    }
    if (kMany) *ends = std::move(many_.ends);
    return last_end_;
  }

 private:
  static constexpr bool kBatches = !kOrdered;
  static constexpr uint32_t kUnasked = 1 << 14;  // tasks between two looks at give_up

  // Tasks from `first` on that are free, of one block, and not in the queue yet.
  struct Batch {
    uint32_t first = 0, count = 0, role = 0;
    Nanos ready = 0;
    uint64_t iteration_key = 0;
  };
  // Of runs of several iterations.
  struct Iterations {
    uint32_t count = 1;
    std::vector<TaskState> states;  // [iteration · slots + slot]
    std::vector<size_t> over;       // by iteration: tasks
    std::vector<Nanos> ends;        // by iteration: of these the last
  };
  struct Place {
    uint64_t iteration_key = 0;  // the key's part
    size_t slot0 = 0;            // of the iteration
    uint32_t slot = 0, of = 0, part = 0;
  };

  void Prepare() {
    queue_.Clear(keys_.TimePart(LikelyEnd()));
    t_.queues_.assign(in_.loads.resources(), Queue());
    queues_ = t_.queues_.data();
    if (kOrdered) t_.waiting_.Clear(in_.loads.devices());
    if (kBatches) t_.batch_sizes_.resize(in_.graph.slots());
    t_.part_ends_.resize(kPartsMax);
    part_ends_ = t_.part_ends_.data();
    if (kBounded) SetLoads();
    std::vector<TaskState>& placed = in_.graph.states();
    if (kMany) {
      many_.states.reserve(placed.size() * many_.count);
      for (uint32_t i = 0; i < many_.count; ++i) {
        many_.states.insert(many_.states.end(), placed.begin(), placed.end());
      }
      many_.over.assign(many_.count, 0);
      many_.ends.assign(many_.count, 0);
    }
    if (kOrdered && in_.loads.fit().in_flight < in_.connections.micro_batches()) SetWindow();
    states_ = kMany ? many_.states.data() : placed.data();
  }

  // The latest time of most tasks: the cutoff, or twice what the busiest queue is busy.
  Nanos LikelyEnd() const {
    if (kBounded) return std::min(cutoff_, keys_.last_time());
    const Nanos busiest = std::max<Nanos>(1, in_.loads.BusiestQueue());
    return std::min(2 * busiest * many_.count, keys_.last_time());
  }

  void SetLoads() {
    for (size_t r = 0; r < in_.loads.resources(); ++r) queues_[r].done = in_.loads.BusyOf(r);
    t_.compute_left_ = in_.loads.compute();
    for (size_t d = 0; d < in_.loads.devices(); ++d) {
      t_.compute_left_[d] += in_.bounds.device_tail(d);
    }
  }

  void SetWindow() {
    std::vector<uint32_t> backward_tasks(in_.connections.micro_batches(), 0);
    for (uint32_t op = 0; op < in_.connections.ops(); ++op) {
      backward_tasks[in_.connections.micro_batch_of(op)] += in_.graph.parts(op);
    }
    window_ = MicroBatchWindow(many_.count, in_.loads.fit().in_flight, std::move(backward_tasks));
  }

  // Of the iteration, as many micro-batches as may be under way.
  void PushSources(uint32_t iteration, Nanos at) {
    PushMicroBatches(iteration, at, 0, in_.loads.fit().in_flight);
  }

  void PushMicroBatches(uint32_t iteration, Nanos at, uint32_t begin, uint32_t end) {
    const uint64_t iteration_key = keys_.IterationPart(iteration);
    const std::vector<TaskState>& placed = in_.graph.states();
    for (uint32_t op = in_.connections.first_op(begin); op < in_.connections.first_op(end); ++op) {
      const uint32_t base = in_.graph.forward_base(op);
      for (uint32_t slot = base; slot < base + in_.graph.parts(op); ++slot) {
        if (placed[slot].waits == 0) SetFree(at, iteration_key, slot);
      }
    }
    Flush();
  }

  // A task may begin.
  void SetFree(Nanos at, uint64_t iteration_key, uint32_t slot) {
    if (kBatches && slot == batch_.first + batch_.count && at == batch_.ready &&
        tasks_[slot].role == batch_.role) {
      ++batch_.count;
      return;
    }
    Flush();
    batch_ = {slot, 1, tasks_[slot].role, at, iteration_key};
  }

  void Flush() {
    if (batch_.count == 0) return;
    if (kBatches) t_.batch_sizes_[batch_.first] = batch_.count;
    Push(batch_.ready, batch_.iteration_key, batch_.first);
    batch_.count = 0;
  }

  void Push(Nanos at, uint64_t iteration_key, uint32_t slot) {
    if (!keys_.Fits(at)) late_ = true;
    queue_.Push(keys_.Of(at, iteration_key, slot));
  }

  // A task that waits hears that one of those it waits for is over.
  void Arrive(Nanos at, const Place& place, uint32_t slot) {
    TaskState& state = states_[place.slot0 + slot];
    const Nanos ready = std::max(state.ready, at);
    state.ready = ready;
    if (--state.missing > 0) return;
    state.ready = 0;  // for the next run
    state.missing = state.waits;
    SetFree(ready, place.iteration_key, slot);
  }

  void Order(uint64_t key) {
    const uint32_t slot = keys_.SlotOf(key);
    const size_t slots = in_.graph.slots();
    if (slot >= slots) return Choose(static_cast<uint32_t>(slot - slots));
    const uint32_t device = DeviceOf(slot);
    if (device != UINT32_MAX) return Wait(key, slot, device);
    Process(key);
  }

  // The device that a task occupies; UINT32_MAX: it uses links or a server. An application of
  // gradients is one flow, of one use.
  uint32_t DeviceOf(uint32_t slot) const {
    const Task task = tasks_[slot];
    if (task.kind() == BlockKind::kForward || task.kind() == BlockKind::kBackward) {
      return task.device;
    }
    if (task.kind() != BlockKind::kSync) return UINT32_MAX;
    const CommTasks& tasks = in_.now.sync(task.of()).tasks;
    const CommTask& sent = tasks.tasks[slot - in_.graph.sync_base(task.of())];
    if (sent.flows_begin == sent.flows_end) return UINT32_MAX;
    const Flow& flow = tasks.flows[sent.flows_begin];
    if (flow.uses_begin == flow.uses_end) return UINT32_MAX;
    const uint32_t resource = tasks.uses[flow.uses_begin].resource;
    return resource < in_.loads.devices() ? resource : UINT32_MAX;
  }

  // The first task that waits for a device makes it choose as soon as it is free.
  void Wait(uint64_t key, uint32_t slot, uint32_t device) {
    const Task task = tasks_[slot];
    const uint32_t last = in_.connections.micro_batches() - 1;
    const uint64_t turn =
        task.kind() == BlockKind::kSync ? last : in_.connections.micro_batch_of(task.of());
    const uint64_t iteration = kMany ? keys_.IterationOf(key) : 0;
    if (t_.waiting_.empty(device)) {
      PushChoice(std::max(keys_.ReadyOf(key), queues_[device].free), device);
    }
    t_.waiting_.Add(device, iteration * (uint64_t{last} + 1) + turn, key);
  }

  void PushChoice(Nanos at, uint32_t device) {
    Push(at, keys_.IterationPart(kMany ? many_.count : 0),
         static_cast<uint32_t>(in_.graph.slots()) + device);
  }

  void Choose(uint32_t device) {
    Process(t_.waiting_.Take(device));
    if (!t_.waiting_.empty(device)) PushChoice(queues_[device].free, device);
  }

  // Into its caller, the loop of a search's runs, which GCC leaves it out of by itself.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Process(uint64_t key) {
    const Nanos ready = keys_.ReadyOf(key);
    Place place;
    place.slot = keys_.SlotOf(key);
    uint32_t iteration = 0;
    if (kMany) {
      iteration = keys_.IterationOf(key);
      place.iteration_key = keys_.IterationPart(iteration);
      place.slot0 = iteration * in_.graph.slots();
    }
    const Task task = tasks_[place.slot];
    place.of = task.of();
    const uint32_t count = kBatches ? t_.batch_sizes_[place.slot] : 1;
    Nanos end = 0;
    switch (task.kind()) {
      case BlockKind::kForward:
        end = Forward(ready, task, count, place);
        break;
      case BlockKind::kBackward:
        end = Backward(ready, task, count, place);
        break;
      case BlockKind::kTransfer:
        end = Communicate(ready, count, in_.now.edge(task.of()).forward, place,
                          in_.graph.transfer_base(task.of()),
                          in_.graph.forward_base(in_.connections.edge(task.of()).to));
        break;
      case BlockKind::kGradient:
        end = Communicate(ready, count, in_.now.edge(task.of()).backward, place,
                          in_.graph.gradient_base(task.of()),
                          in_.graph.backward_base(in_.connections.edge(task.of()).from));
        break;
      case BlockKind::kSync: {
        const uint32_t base = in_.graph.sync_base(task.of());
        end = Communicate(ready, count, in_.now.sync(task.of()).tasks, place, base, base);
        break;
      }
    }
    Flush();
    if (kOrdered && window_.bounded() && task.kind() == BlockKind::kBackward) {
      window_.EndBackward(
          iteration, in_.connections.micro_batch_of(place.of), end,
          [&](uint32_t next, Nanos at) { PushMicroBatches(iteration, at, next, next + 1); });
    }
    last_end_ = std::max(last_end_, end);
    if (kMany) EndOf(iteration, end);
  }

  // An iteration that is over lets the one start that waits for it.
  void EndOf(uint32_t iteration, Nanos end) {
    many_.ends[iteration] = std::max(many_.ends[iteration], end);
    if (++many_.over[iteration] < in_.graph.task_count()) return;
    const uint32_t next = iteration + 1 + in_.now.staleness();
    if (next < many_.count) PushSources(next, many_.ends[iteration]);
  }

  // What a queue still has to serve does not start before now, nor before the queue is free.
  void CheckDevices(Nanos now) {
    bool late = false;
    for (size_t d = 0; d < t_.compute_left_.size(); ++d) {
      const Nanos left = t_.compute_left_[d];
      late |= left > in_.bounds.device_tail(d) && std::max(now, queues_[d].free) + left > cutoff_;
    }
    late_ |= late;
  }

  void CheckQueues(Nanos now) {
    bool late = false;
    for (const Queue& queue : t_.queues_) {
      late |=
          queue.done > queue.free && queue.done + std::max<Nanos>(now - queue.free, 0) > cutoff_;
    }
    late_ |= late;
  }

  // Serves a use. What the queue still has to serve is a bound, in whatever order: it comes behind.
  Nanos Serve(uint32_t resource, Nanos ready, Nanos busy, const Place& place, uint32_t index) {
    Queue& queue = queues_[resource];
    const Nanos start = std::max(ready, queue.free);
    const Nanos end = start + busy;
    if (kBounded) {
      queue.done += start - queue.free;  // by what it was idle
      late_ |= queue.done > cutoff_;
    }
    queue.free = end;
    if (!kBounded && t_.visit_ != nullptr && IsVisited(place)) [[unlikely]] {
      const BlockKind kind = tasks_[place.slot].kind();
      const bool connects = kind == BlockKind::kTransfer || kind == BlockKind::kGradient;
      const uint32_t of = connects ? in_.connections.edge(place.of).edges[0] : place.of;
      (*t_.visit_)({KindOf(kind), of, index, resource, ready, start, end});
    }
    return end;
  }

  bool IsVisited(const Place& place) const {
    return !kMany || place.slot0 == t_.visited_ * in_.graph.slots();
  }

  static TaskKind KindOf(BlockKind kind) {
    constexpr TaskKind kKinds[] = {TaskKind::kForward, TaskKind::kTransfer, TaskKind::kBackward,
                                   TaskKind::kGradient, TaskKind::kSynchronize};
    return kKinds[static_cast<size_t>(kind)];
  }

  // Parts of one block from place.part on, `count`; what follows a device's last backward task, and
  // these, is to come as well. The last end; all are in part_ends_.
  Nanos Compute(Nanos ready, uint32_t count, Place& place, Nanos tail) {
    Nanos last = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const Task& task = tasks_[place.slot + i];
      const Nanos end = Serve(task.device, ready, task.busy, place, place.part + i);
      if (kBounded) {
        Nanos& left = t_.compute_left_[task.device];
        left -= task.busy;
        late_ |= end + std::max(left, tail) > cutoff_;
      }
      part_ends_[i] = end;
      last = std::max(last, end);
    }
    return last;
  }

  Nanos Forward(Nanos ready, const Task& task, uint32_t count, Place& place) {
    const uint32_t op = task.of();
    place.part = place.slot - in_.graph.forward_base(op);
    const Nanos end = Compute(ready, count, place, in_.bounds.tail_forward(op));
    const std::vector<uint32_t>& begin = in_.connections.out().begin;
    for (uint32_t i = begin[op]; i < begin[op + 1]; ++i) {
      Follow(in_.graph.route_out(i), count, place);
    }
    if (task.starts()) {
      ArriveEach(count, place, in_.graph.backward_base(op) + place.part);
    }
    return end;
  }

  Nanos Backward(Nanos ready, const Task& task, uint32_t count, Place& place) {
    const uint32_t op = task.of();
    place.part = place.slot - in_.graph.backward_base(op);
    const Nanos end = Compute(ready, count, place, in_.bounds.tail_backward(op));
    const std::vector<uint32_t>& begin = in_.connections.in().begin;
    for (uint32_t i = begin[op]; i < begin[op + 1]; ++i) {
      Follow(in_.graph.route_in(i), count, place);
    }
    const uint32_t group = in_.connections.group_of(op);
    if (group != ConnectionGraph::kNoGroup) {
      const uint32_t base = in_.graph.sync_base(group);
      const PartLists& to = in_.now.sync(group).device_to;
      for (uint32_t i = 0; i < count; ++i) {
        for (uint32_t item : to.of(tasks_[place.slot + i].device)) {
          Arrive(part_ends_[i], place, base + item);
        }
      }
    }
    return end;
  }

  // Each part's end arrives at one task, from `slot` on.
  void ArriveEach(uint32_t count, const Place& place, uint32_t slot) {
    for (uint32_t i = 0; i < count; ++i) Arrive(part_ends_[i], place, slot + i);
  }

  void Follow(const Route& route, uint32_t count, const Place& place) {
    if (route.lists == nullptr) return ArriveEach(count, place, route.parts + place.part);
    for (uint32_t i = 0; i < count; ++i) {
      for (uint32_t item : route.lists->of(place.part + i)) {
        const uint32_t base = (item & kIsTask) == 0 ? route.parts : route.tasks;
        Arrive(part_ends_[i], place, base + (item & ~kIsTask));
      }
    }
  }

  // A flow arrives; the last one lets go who waits for all of them.
  void ArriveAtJoin(Nanos at, const Place& place, const CommTasks& tasks, uint32_t join,
                    uint32_t base, uint32_t done_base) {
    const size_t slot = base + tasks.tasks.size() + join;
    TaskState& state = states_[place.slot0 + slot];
    const Nanos ready = std::max(state.ready, at);
    state.ready = ready;
    if (--state.missing > 0) return;
    state.ready = 0;
    state.missing = state.waits;
    for (uint32_t i = tasks.joins[join].done_begin; i < tasks.joins[join].done_end; ++i) {
      Arrive(ready, place, done_base + tasks.done[i]);
    }
  }

  Nanos Communicate(Nanos ready, uint32_t count, const CommTasks& tasks, const Place& place,
                    uint32_t base, uint32_t done_base) {
    Nanos last = ready + 1;
    for (uint32_t i = 0; i < count; ++i) {
      last = std::max(last, Send(ready, tasks, place, place.slot - base + i, base, done_base));
    }
    return last;
  }

  Nanos Send(Nanos ready, const CommTasks& tasks, const Place& place, uint32_t index, uint32_t base,
             uint32_t done_base) {
    const CommTask& task = tasks.tasks[index];
    Nanos last = ready + 1;
    for (uint32_t f = task.flows_begin; f < task.flows_end; ++f) {
      const Flow& flow = tasks.flows[f];
      Nanos delivered = ready + 1;
      for (uint32_t u = flow.uses_begin; u < flow.uses_end; ++u) {
        const LinkUse& use = tasks.uses[u];
        const Nanos end = Serve(use.resource, ready + use.offset, use.busy, place, index);
        if (u == flow.uses_begin && task.next_segment >= 0) {
          SetFree(end, place.iteration_key, base + static_cast<uint32_t>(task.next_segment));
        }
        delivered = std::max(delivered, end + use.rest);
      }
      for (uint32_t i = flow.done_begin; i < flow.done_end; ++i) {
        const uint32_t item = tasks.done[i];
        if ((item & kIsJoin) == 0) {
          Arrive(delivered, place, done_base + item);
        } else {
          ArriveAtJoin(delivered, place, tasks, item & ~kIsJoin, base, done_base);
        }
      }
      last = std::max(last, delivered);
    }
    return last;
  }

  Timeline& t_;
  const Sources in_;
  EventQueue& queue_;
  const Task* const tasks_;      // by slot
  TaskState* states_ = nullptr;  // by slot, of all iterations
  Queue* queues_ = nullptr;
  Nanos* part_ends_ = nullptr;  // of the batch
  const TimelineKeys keys_;
  const Nanos cutoff_;
  Iterations many_;
  MicroBatchWindow window_;
  Batch batch_;
  Nanos last_end_ = 0;
  bool late_ = false;
};

}  // namespace soapstone::planner
