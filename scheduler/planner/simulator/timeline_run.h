// One run of the simulator, which has in simulator.h what it computes: tasks in the order in which
// they may begin (Jia et al. 2019, algorithm 1). Included by timeline.cc and ordered_timeline.cc.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "absl/base/attributes.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {

// One run. A key is, from the top bit down: the time at which the task may begin, iteration, slot.
// kBounded: ends as soon as the last end is known to be over the cutoff. kOrdered: devices serve
// micro-batch by micro-batch, and keys of slots behind the tasks', one a device, are of when they
// choose: after all that is ready at that time. kMany: iterations overlap. Micro-batches that are
// not under way yet are begun when earlier ones are over.
//
// Batches. Tasks of one block in a row which may begin at one time have keys that follow each
// other, and what they set free may begin later, as busy is at least 1: one key stands for all of
// them, and they are served one after the other.
template <bool kOrdered, bool kMany, bool kBounded>
class Simulator::Run {
 public:
  Run(Simulator* simulator, Nanos cutoff, uint32_t iterations)
      : s_(*simulator),
        queue_(simulator->queue_),
        cutoff_(cutoff),
        iterations_(iterations),
        slot_bits_(static_cast<uint32_t>(
            std::bit_width(simulator->slots_ + (kOrdered ? simulator->compute_load_.size() : 0)))),
        slot_mask_((uint64_t{1} << slot_bits_) - 1),
        time_shift_(slot_bits_ + (kMany ? std::bit_width(iterations) : 0)),
        time_max_(Nanos{1} << (63 - time_shift_)) {}

  // The last end, or kNever.
  Nanos Simulate(std::vector<Nanos>* ends) {
    queue_.Clear(LikelyEnd() << time_shift_);
    s_.queues_.assign(s_.builder_.resources(), Queue());
    queues_ = s_.queues_.data();
    if (kOrdered) s_.waiting_.Clear(s_.compute_load_.size());
    if (kBatches) s_.batch_sizes_.resize(s_.slots_);
    s_.part_ends_.resize(kPartsMax);
    part_ends_ = s_.part_ends_.data();
    if (kBounded) SetLoads();
    if (kMany) {
      states_of_all_.reserve(s_.slots_ * iterations_);
      for (uint32_t i = 0; i < iterations_; ++i) {
        states_of_all_.insert(states_of_all_.end(), s_.states_.begin(), s_.states_.end());
      }
      over_.assign(iterations_, 0);
      ends_.assign(iterations_, 0);
    }
    if (kOrdered && s_.in_flight_ < s_.graph_->micro_batches) CountBackward();
    states_ = kMany ? states_of_all_.data() : s_.states_.data();
    for (uint32_t i = 0; i <= (kMany ? std::min(s_.strategy_.staleness, iterations_ - 1) : 0);
         ++i) {
      PushSources(i, 0);
    }
    // So that checks cost less than serving.
    const auto devices = static_cast<uint32_t>(s_.compute_load_.size());
    uint32_t until_devices = devices, until_queues = s_.builder_.resources() / devices;
    while (!queue_.empty()) {
      const uint64_t key = queue_.Pop();
      if constexpr (kOrdered) {
        Order(key);
      } else {
        Process(key);
      }
      if (late_) break;
      if (kBounded && --until_devices == 0) {
        const auto now = static_cast<Nanos>(key >> time_shift_);
        until_devices = devices;
        CheckDevices(now);
        if (--until_queues == 0) {
          until_queues = s_.builder_.resources() / devices;
          CheckQueues(now);
        }
      }
    }
    if (late_) {
      if (!kMany) Clean();
      return kNever;
    }
    if (kMany) *ends = ends_;
    return last_end_;
  }

 private:
  static constexpr bool kBatches = !kOrdered;

  // Tasks from `first` on that are free, of one block, and not in the queue yet.
  struct Batch {
    uint32_t first = 0, count = 0, role = 0;
    Nanos ready = 0;
    uint64_t iteration_key = 0;
  };
  // Of an iteration, where not all of its micro-batches are under way at once.
  struct UnderWay {
    std::vector<uint32_t> left;  // by micro-batch: backward tasks
    std::vector<Nanos> ends;     // by micro-batch: the last of its backward tasks
    uint32_t over = 0;           // so many micro-batches, from the first on
    Nanos end = 0;               // of the last of these
  };
  struct Place {
    uint64_t iteration_key = 0;  // the key's part
    size_t slot0 = 0;            // of the iteration
    uint32_t slot = 0, of = 0, part = 0;
  };

  // The latest time of most tasks: the cutoff, or twice what the busiest queue is busy.
  uint64_t LikelyEnd() const {
    if (kBounded) return static_cast<uint64_t>(std::min(cutoff_, time_max_ - 1));
    Nanos busiest = 1;
    for (size_t r = 0; r < s_.comm_load_.size(); ++r) {
      busiest = std::max(
          busiest, s_.comm_load_[r] + (r < s_.compute_load_.size() ? s_.compute_load_[r] : 0));
    }
    return static_cast<uint64_t>(std::min(2 * busiest * iterations_, time_max_ - 1));
  }

  void SetLoads() {
    for (size_t r = 0; r < s_.queues_.size(); ++r) queues_[r].done = s_.comm_load_[r];
    s_.compute_left_ = s_.compute_load_;
    for (size_t d = 0; d < s_.compute_load_.size(); ++d) {
      queues_[d].done += s_.compute_load_[d];
      s_.compute_left_[d] += s_.device_tail_[d];
    }
  }

  // Of the iteration, as many micro-batches as may be under way.
  void PushSources(uint32_t iteration, Nanos at) {
    PushMicroBatches(iteration, at, 0, s_.in_flight_);
  }

  void PushMicroBatches(uint32_t iteration, Nanos at, uint32_t begin, uint32_t end) {
    const uint64_t iteration_key = uint64_t{iteration} << slot_bits_;
    for (uint32_t op = s_.first_ops_[begin]; op < s_.first_ops_[end]; ++op) {
      const Block& block = s_.blocks_[op];
      for (uint32_t slot = block.base; slot < block.base + block.size; ++slot) {
        if (s_.states_[slot].waits == 0) SetFree(at, iteration_key, slot);
      }
    }
    Flush();
  }

  // A task may begin.
  void SetFree(Nanos at, uint64_t iteration_key, uint32_t slot) {
    if (kBatches && slot == batch_.first + batch_.count && at == batch_.ready &&
        s_.tasks_[slot].role == batch_.role) {
      ++batch_.count;
      return;
    }
    Flush();
    batch_ = {slot, 1, s_.tasks_[slot].role, at, iteration_key};
  }

  void Flush() {
    if (batch_.count == 0) return;
    if (kBatches) s_.batch_sizes_[batch_.first] = batch_.count;
    Push(batch_.ready, batch_.iteration_key, batch_.first);
    batch_.count = 0;
  }

  void Push(Nanos at, uint64_t iteration_key, uint32_t slot) {
    if (at >= time_max_) late_ = true;
    queue_.Push(static_cast<uint64_t>(at) << time_shift_ | iteration_key | slot);
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

  void CountBackward() {
    under_way_.resize(iterations_);
    for (UnderWay& iteration : under_way_) {
      iteration.left.assign(static_cast<size_t>(s_.graph_->micro_batches), 0);
      iteration.ends.assign(iteration.left.size(), 0);
      for (uint32_t op = 0; op < s_.n_; ++op) {
        iteration.left[s_.graph_->ops[op].micro_batch] += s_.ops_[op]->split->parts;
      }
    }
  }

  // Of a backward task: a micro-batch that is over, as all before it are, lets one begin.
  void EndOfBackward(uint32_t iteration, uint32_t micro_batch, Nanos end) {
    UnderWay& here = under_way_[iteration];
    here.ends[micro_batch] = std::max(here.ends[micro_batch], end);
    --here.left[micro_batch];
    const auto all = static_cast<uint32_t>(here.left.size());
    for (; here.over < all && here.left[here.over] == 0; ++here.over) {
      here.end = std::max(here.end, here.ends[here.over]);
      const uint32_t next = here.over + s_.in_flight_;
      if (next < all) PushMicroBatches(iteration, here.end, next, next + 1);
    }
  }

  uint32_t IterationOf(uint64_t key) const {
    return static_cast<uint32_t>(key >> slot_bits_) &
           ((uint32_t{1} << std::bit_width(iterations_)) - 1);
  }

  void Order(uint64_t key) {
    const auto slot = static_cast<uint32_t>(key & slot_mask_);
    if (slot >= s_.slots_) return Choose(static_cast<uint32_t>(slot - s_.slots_));
    const uint32_t device = DeviceOf(slot);
    if (device != UINT32_MAX) return Wait(key, slot, device);
    Process(key);
  }

  // The device that a task occupies; UINT32_MAX: it uses links or a server. An application of
  // gradients is one flow, of one use.
  uint32_t DeviceOf(uint32_t slot) const {
    const Task task = s_.tasks_[slot];
    if (task.kind() == BlockKind::kForward || task.kind() == BlockKind::kBackward) {
      return task.device;
    }
    if (task.kind() != BlockKind::kSync) return UINT32_MAX;
    const CommTasks& tasks = s_.syncs_[task.of()]->tasks;
    const CommTask& sent = tasks.tasks[slot - s_.blocks_[s_.SyncBlockOf(task.of())].base];
    if (sent.flows_begin == sent.flows_end) return UINT32_MAX;
    const Flow& flow = tasks.flows[sent.flows_begin];
    if (flow.uses_begin == flow.uses_end) return UINT32_MAX;
    const uint32_t resource = tasks.uses[flow.uses_begin].resource;
    return resource < s_.compute_load_.size() ? resource : UINT32_MAX;
  }

  // The first task that waits for a device makes it choose as soon as it is free.
  void Wait(uint64_t key, uint32_t slot, uint32_t device) {
    const Task task = s_.tasks_[slot];
    const auto last = static_cast<uint32_t>(s_.graph_->micro_batches) - 1;
    const uint64_t turn =
        task.kind() == BlockKind::kSync ? last : s_.graph_->ops[task.of()].micro_batch;
    const uint64_t iteration = kMany ? IterationOf(key) : 0;
    if (s_.waiting_.empty(device)) {
      PushChoice(std::max(static_cast<Nanos>(key >> time_shift_), queues_[device].free), device);
    }
    s_.waiting_.Add(device, iteration * (uint64_t{last} + 1) + turn, key);
  }

  void PushChoice(Nanos at, uint32_t device) {
    Push(at, uint64_t{kMany ? iterations_ : 0} << slot_bits_,
         static_cast<uint32_t>(s_.slots_) + device);
  }

  void Choose(uint32_t device) {
    Process(s_.waiting_.Take(device));
    if (!s_.waiting_.empty(device)) PushChoice(queues_[device].free, device);
  }

  // Into its caller, the loop of a search's runs, which GCC leaves it out of by itself.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Process(uint64_t key) {
    const auto ready = static_cast<Nanos>(key >> time_shift_);
    Place place;
    place.slot = static_cast<uint32_t>(key & slot_mask_);
    uint32_t iteration = 0;
    if (kMany) {
      iteration = IterationOf(key);
      place.iteration_key = uint64_t{iteration} << slot_bits_;
      place.slot0 = iteration * s_.slots_;
    }
    const Task task = s_.tasks_[place.slot];
    place.of = task.of();
    const uint32_t count = kBatches ? s_.batch_sizes_[place.slot] : 1;
    Nanos end = 0;
    switch (task.kind()) {
      case BlockKind::kForward:
        end = Forward(ready, task, count, place);
        break;
      case BlockKind::kBackward:
        end = Backward(ready, task, count, place);
        break;
      case BlockKind::kTransfer:
        end = Communicate(ready, count, s_.edges_[task.of()]->forward, place,
                          s_.TransferBlock(task.of()),
                          s_.blocks_[s_.ForwardBlock(s_.connections_[task.of()].to)].base);
        break;
      case BlockKind::kGradient:
        end = Communicate(ready, count, s_.edges_[task.of()]->backward, place,
                          s_.GradientBlock(task.of()),
                          s_.blocks_[s_.BackwardBlock(s_.connections_[task.of()].from)].base);
        break;
      case BlockKind::kSync: {
        const uint32_t block = s_.SyncBlockOf(task.of());
        end = Communicate(ready, count, s_.syncs_[task.of()]->tasks, place, block,
                          s_.blocks_[block].base);
        break;
      }
    }
    Flush();
    if (kOrdered && !under_way_.empty() && task.kind() == BlockKind::kBackward) {
      EndOfBackward(iteration, s_.graph_->ops[task.of()].micro_batch, end);
    }
    last_end_ = std::max(last_end_, end);
    if (kMany) EndOf(iteration, end);
  }

  // An iteration that is over lets the one start that waits for it.
  void EndOf(uint32_t iteration, Nanos end) {
    ends_[iteration] = std::max(ends_[iteration], end);
    if (++over_[iteration] < s_.task_count_) return;
    const uint32_t next = iteration + 1 + s_.strategy_.staleness;
    if (next < iterations_) PushSources(next, ends_[iteration]);
  }

  // What a queue still has to serve does not start before now, nor before the queue is free.
  void CheckDevices(Nanos now) {
    bool late = false;
    for (size_t d = 0; d < s_.compute_left_.size(); ++d) {
      late |= s_.compute_left_[d] > s_.device_tail_[d] &&
              std::max(now, queues_[d].free) + s_.compute_left_[d] > cutoff_;
    }
    late_ |= late;
  }

  void CheckQueues(Nanos now) {
    bool late = false;
    for (const Queue& queue : s_.queues_) {
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
    if (!kMany && !kBounded && s_.record_ != nullptr) [[unlikely]] {
      const BlockKind kind = s_.tasks_[place.slot].kind();
      const bool connects = kind == BlockKind::kTransfer || kind == BlockKind::kGradient;
      const uint32_t of = connects ? s_.connections_[place.of].edges[0] : place.of;
      s_.record_->push_back({KindOf(kind), of, index, resource, ready, start, end});
    }
    return end;
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
      const Task& task = s_.tasks_[place.slot + i];
      const Nanos end = Serve(task.device, ready, task.busy, place, place.part + i);
      if (kBounded) {
        Nanos& left = s_.compute_left_[task.device];
        left -= task.busy;
        late_ |= end + std::max(left, tail) > cutoff_;
      }
      part_ends_[i] = end;
      last = std::max(last, end);
    }
    return last;
  }

  void Clean() {
    for (TaskState& state : s_.states_) state = {0, state.waits, state.waits};
  }

  Nanos Forward(Nanos ready, const Task& task, uint32_t count, Place& place) {
    const uint32_t op = task.of();
    place.part = place.slot - s_.blocks_[op].base;
    const Nanos end = Compute(ready, count, place, s_.tail_forward_[op]);
    for (uint32_t i = s_.out_.begin[op]; i < s_.out_.begin[op + 1]; ++i) {
      Follow(s_.routes_out_[i], count, place);
    }
    if (task.starts()) {
      ArriveEach(count, place, s_.blocks_[s_.BackwardBlock(op)].base + place.part);
    }
    return end;
  }

  Nanos Backward(Nanos ready, const Task& task, uint32_t count, Place& place) {
    const uint32_t op = task.of();
    place.part = place.slot - s_.blocks_[s_.BackwardBlock(op)].base;
    const Nanos end = Compute(ready, count, place, s_.tail_backward_[op]);
    for (uint32_t i = s_.in_.begin[op]; i < s_.in_.begin[op + 1]; ++i) {
      Follow(s_.routes_in_[i], count, place);
    }
    const uint32_t group = s_.group_of_[op];
    if (group != UINT32_MAX) {
      const uint32_t base = s_.blocks_[s_.SyncBlockOf(group)].base;
      const PartLists& to = s_.syncs_[group]->device_to;
      for (uint32_t i = 0; i < count; ++i) {
        for (uint32_t item : to.of(s_.tasks_[place.slot + i].device)) {
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
                    uint32_t block, uint32_t done_base) {
    const uint32_t base = s_.blocks_[block].base;
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

  Simulator& s_;
  EventQueue& queue_;
  TaskState* states_ = nullptr;
  Queue* queues_ = nullptr;
  Nanos* part_ends_ = nullptr;  // of the batch
  std::vector<TaskState> states_of_all_;
  std::vector<size_t> over_;
  std::vector<Nanos> ends_;
  std::vector<UnderWay> under_way_;  // by iteration
  const Nanos cutoff_;
  const uint32_t iterations_;
  const uint32_t slot_bits_;
  const uint64_t slot_mask_;
  const uint32_t time_shift_;
  const Nanos time_max_;
  Batch batch_;
  Nanos last_end_ = 0;
  bool late_ = false;
};

}  // namespace soapstone::planner
