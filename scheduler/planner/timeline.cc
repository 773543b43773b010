// The full simulation: tasks in the order in which they become ready (Jia et al. 2019, algorithm
// 1).
#include <algorithm>
#include <bit>
#include <limits>

#include "scheduler/planner/simulator.h"

namespace soapstone::planner {

// One run. A key is, from the top bit down: ready time, iteration, block, index in the block.
template <bool kMany>
class Simulator::Run {
 public:
  Run(Simulator* simulator, Nanos cutoff, uint32_t iterations)
      : s_(*simulator),
        queue_(simulator->queue_),
        cutoff_(cutoff),
        iterations_(iterations),
        block_shift_(simulator->index_bits_),
        iteration_shift_(block_shift_ + simulator->block_bits_),
        time_shift_(iteration_shift_ + (kMany ? std::bit_width(iterations) : 0)),
        time_max_(Nanos{1} << (63 - time_shift_)),
        check_every_(simulator->builder_.resources()) {}

  // The last end, or kNever as soon as it is known to be over the cutoff.
  Nanos Simulate(std::vector<Nanos>* ends) {
    queue_.Clear();
    s_.free_at_.assign(s_.builder_.resources(), 0);
    s_.left_ = s_.comm_load_;
    s_.compute_left_ = s_.compute_load_;
    for (size_t d = 0; d < s_.compute_load_.size(); ++d) {
      s_.left_[d] += s_.compute_load_[d];
      s_.compute_left_[d] += s_.device_tail_[d];
    }
    if (kMany) {
      states_of_all_.resize(s_.slots_ * iterations_);
      for (size_t i = 0; i < states_of_all_.size(); ++i) {
        states_of_all_[i].missing = s_.waits_[i % s_.slots_] & ~kStartsBackward;
      }
      over_.assign(iterations_, 0);
      ends_.assign(iterations_, 0);
      for (uint32_t i = 0; i <= std::min(s_.strategy_.staleness, iterations_ - 1); ++i) {
        PushSources(i, 0);
      }
    } else {
      PushSources(0, 0);
    }
    states_ = kMany ? states_of_all_.data() : s_.states_.data();
    const bool bounded = !kMany && cutoff_ != kNever;
    for (uint64_t served = 1; !queue_.empty() && !late_; ++served) {
      const uint64_t key = queue_.Pop();
      Process(key);
      if (bounded && served % check_every_ == 0)
        CheckQueues(static_cast<Nanos>(key >> time_shift_));
    }
    if (late_) {
      if (!kMany) Clean();
      return kNever;
    }
    if (kMany) *ends = ends_;
    return last_end_;
  }

 private:
  struct Place {
    uint32_t block, index;
    uint64_t iteration_key;  // the key's part
    size_t slot0;            // of the iteration
  };

  void PushSources(uint32_t iteration, Nanos at) {
    const uint64_t iteration_key = uint64_t{iteration} << iteration_shift_;
    for (uint32_t op = 0; op < s_.n_; ++op) {
      if (!s_.starts_at_once_[op]) continue;
      const uint32_t base = s_.blocks_[op].base;
      for (uint32_t part = 0; part < s_.ops_[op].split->parts; ++part) {
        if ((s_.waits_[base + part] & ~kStartsBackward) == 0) Push(at, iteration_key, op, part);
      }
    }
  }

  void Push(Nanos at, uint64_t iteration_key, uint32_t block, uint32_t index) {
    if (at >= time_max_) {
      late_ = true;
      return;
    }
    queue_.Push(static_cast<uint64_t>(at) << time_shift_ | iteration_key |
                uint64_t{block} << block_shift_ | index);
  }

  // A task that waits hears that one of those it waits for is over.
  void Arrive(Nanos at, const Place& place, uint32_t block, uint32_t index) {
    TaskState& state = states_[place.slot0 + s_.blocks_[block].base + index];
    state.ready = std::max(state.ready, at);
    if (--state.missing == 0) Push(state.ready, place.iteration_key, block, index);
  }

  void Process(uint64_t key) {
    const auto ready = static_cast<Nanos>(key >> time_shift_);
    Place place;
    place.index = static_cast<uint32_t>(key & ((uint64_t{1} << block_shift_) - 1));
    place.block =
        static_cast<uint32_t>(key >> block_shift_) & ((uint32_t{1} << s_.block_bits_) - 1);
    uint32_t iteration = 0;
    place.iteration_key = 0;
    place.slot0 = 0;
    if (kMany) {
      iteration = static_cast<uint32_t>(key >> iteration_shift_) &
                  ((uint32_t{1} << std::bit_width(iterations_)) - 1);
      place.iteration_key = uint64_t{iteration} << iteration_shift_;
      place.slot0 = iteration * s_.slots_;
    }
    const BlockRole role = s_.roles_[place.block];
    Nanos end = 0;
    switch (role.kind) {
      case BlockKind::kForward:
        end = Forward(ready, role.of, place);
        break;
      case BlockKind::kBackward:
        end = Backward(ready, role.of, place);
        break;
      case BlockKind::kTransfer:
        end = Communicate(ready, s_.edges_[role.of]->forward, place,
                          s_.ForwardBlock(s_.graph_->edges[role.of].to));
        break;
      case BlockKind::kGradient:
        end = Communicate(ready, s_.edges_[role.of]->backward, place,
                          s_.BackwardBlock(s_.graph_->edges[role.of].from));
        break;
      case BlockKind::kSync:
        end = Communicate(ready, s_.syncs_[role.of]->tasks, place, place.block);
        break;
    }
    last_end_ = std::max(last_end_, end);
    if (kMany) EndOf(iteration, end);
  }

  // An iteration that is over lets the one start that waits for it.
  void EndOf(uint32_t iteration, Nanos end) {
    ends_[iteration] = std::max(ends_[iteration], end);
    if (++over_[iteration] < s_.tasks_) return;
    const uint32_t next = iteration + 1 + s_.strategy_.staleness;
    if (next < iterations_) PushSources(next, ends_[iteration]);
  }

  // What a queue still has to serve is not ready before now.
  void CheckQueues(Nanos now) {
    bool late = false;
    for (size_t d = 0; d < s_.compute_left_.size(); ++d) {
      late |= s_.compute_left_[d] > s_.device_tail_[d] &&
              std::max(now, s_.free_at_[d]) + s_.compute_left_[d] > cutoff_;
    }
    for (size_t r = 0; r < s_.free_at_.size(); ++r) {
      late |= s_.left_[r] > 0 && std::max(now, s_.free_at_[r]) + s_.left_[r] > cutoff_;
    }
    late_ |= late;
  }

  // Serves a task. What the queue still has to serve is a bound: nothing there ends earlier.
  Nanos Serve(uint32_t resource, Nanos ready, Nanos busy, Nanos not_before) {
    Nanos& free_at = s_.free_at_[resource];
    start_ = std::max(ready, free_at);
    free_at = std::max(start_ + busy, not_before);
    if (!kMany) {
      s_.left_[resource] -= busy;
      late_ |= free_at + s_.left_[resource] > cutoff_;
    }
    return free_at;
  }

  // What follows a device's last backward task is to come as well.
  Nanos Compute(uint32_t device, Nanos ready, Nanos busy) {
    const Nanos end = Serve(device, ready, busy, 0);
    if (!kMany) {
      s_.compute_left_[device] -= busy;
      late_ |= end + s_.compute_left_[device] > cutoff_;
    }
    return end;
  }

  void Record(const Place& place, Nanos ready, Nanos end) {
    if (!kMany && s_.record_)
      s_.times_[s_.blocks_[place.block].base + place.index] = {ready, start_, end};
  }
  // As it was before the run, for the next.
  void Restore(const Place& place) {
    if (kMany) return;
    const size_t slot = s_.blocks_[place.block].base + place.index;
    s_.states_[slot] = {.ready = 0, .missing = s_.waits_[slot] & ~kStartsBackward};
  }
  void Clean() {
    for (size_t i = 0; i < s_.slots_; ++i) {
      s_.states_[i] = {.ready = 0, .missing = s_.waits_[i] & ~kStartsBackward};
    }
  }

  Nanos Forward(Nanos ready, uint32_t op, const Place& place) {
    const OpState& state = s_.ops_[op];
    const uint32_t part = place.index;
    const Nanos end = Compute(state.config.devices[part], ready, state.forward[part]);
    Record(place, ready, end);
    Restore(place);
    for (uint32_t edge : s_.graph_->ops[op].out) {
      SetFree(s_.edges_[edge]->forward_to.of(part), end, place,
              s_.ForwardBlock(s_.graph_->edges[edge].to), s_.TransferBlock(edge),
              s_.edges_[edge]->forward.tasks.data());
    }
    if ((s_.waits_[s_.blocks_[place.block].base + part] & kStartsBackward) != 0) {
      Arrive(end, place, s_.BackwardBlock(op), part);
    }
    return end;
  }

  Nanos Backward(Nanos ready, uint32_t op, const Place& place) {
    const OpState& state = s_.ops_[op];
    const uint32_t part = place.index;
    const uint32_t device = state.config.devices[part];
    const Nanos end = Compute(device, ready, state.backward[part]);
    Record(place, ready, end);
    Restore(place);
    for (uint32_t edge : s_.graph_->ops[op].in) {
      SetFree(s_.edges_[edge]->backward_to.of(part), end, place,
              s_.BackwardBlock(s_.graph_->edges[edge].from), s_.GradientBlock(edge),
              s_.edges_[edge]->backward.tasks.data());
    }
    if (!s_.graph_->ops[op].params.empty()) {
      const uint32_t group = s_.graph_->ops[op].group;
      const int32_t task = s_.syncs_[group]->task_of_device[device];
      if (task >= 0) Arrive(end, place, s_.SyncBlockOf(group), static_cast<uint32_t>(task));
    }
    return end;
  }

  void SetFree(absl::Span<const uint32_t> items, Nanos at, const Place& place, uint32_t parts_block,
               uint32_t tasks_block, const CommTask* tasks) {
    for (uint32_t item : items) {
      if ((item & kIsTask) == 0) {
        Arrive(at, place, parts_block, item);
        continue;
      }
      // It will be served some hundred instructions from now, and is seldom in the cache.
      __builtin_prefetch(tasks + (item & ~kIsTask));
      Arrive(at, place, tasks_block, item & ~kIsTask);
    }
  }

  Nanos Communicate(Nanos ready, const CommTasks& tasks, const Place& place, uint32_t done_block) {
    const CommTask& task = tasks.tasks[place.index];
    const size_t base = place.slot0 + s_.blocks_[place.block].base;
    const Nanos not_before = states_[base + place.index].ready;  // the previous hop's end
    Nanos end = 0;
    if (task.resource == kNoResource) {
      start_ = ready;
      end = ready + task.busy;
    } else {
      end = Serve(task.resource, ready, task.busy, not_before);
    }
    Record(place, ready, end);
    Restore(place);
    if (task.next_hop >= 0) {
      const auto next = static_cast<uint32_t>(task.next_hop);
      states_[base + next].ready = end + task.latency;
      Push(start_ + task.latency, place.iteration_key, place.block, next);
    }
    if (task.next_segment >= 0) {
      Push(end, place.iteration_key, place.block, static_cast<uint32_t>(task.next_segment));
    }
    const Nanos delivered = end + task.latency;
    for (uint32_t i = task.done_begin; i < task.done_end; ++i) {
      Arrive(delivered, place, done_block, tasks.done[i]);
    }
    return task.next_hop < 0 ? delivered : end;
  }

  Simulator& s_;
  EventQueue& queue_;
  TaskState* states_ = nullptr;
  std::vector<TaskState> states_of_all_;
  std::vector<size_t> over_;
  std::vector<Nanos> ends_;
  const Nanos cutoff_;
  const uint32_t iterations_;
  const uint32_t block_shift_, iteration_shift_, time_shift_;
  const Nanos time_max_;
  const uint64_t check_every_;  // so that checks cost less than serving
  Nanos start_ = 0, last_end_ = 0;
  bool late_ = false;
};

template <bool kMany>
Nanos Simulator::RunTimeline(Nanos cutoff, uint32_t iterations, std::vector<Nanos>* ends) {
  return Run<kMany>(this, cutoff, iterations).Simulate(ends);
}

template Nanos Simulator::RunTimeline<false>(Nanos, uint32_t, std::vector<Nanos>*);
template Nanos Simulator::RunTimeline<true>(Nanos, uint32_t, std::vector<Nanos>*);

Nanos Simulator::Simulate() { return RunTimeline<false>(kNever, 1, nullptr); }

Nanos Simulator::StepTime() {
  if (!step_known_) step_ = Simulate();
  step_known_ = true;
  return step_;
}

Nanos Simulator::IterationTime() {
  if (strategy_.staleness == 0) return StepTime();
  const uint32_t together = strategy_.staleness + 1;
  const uint32_t before = std::max<uint32_t>(8, together);
  const uint32_t window = (before + together - 1) / together * together;
  std::vector<Nanos> ends;
  if (RunTimeline<true>(kNever, before + window + together, &ends) == kNever) return kNever;
  return (ends[before + window - 1] - ends[before - 1]) / window;
}

std::vector<TimelineTask> Simulator::Timeline() {
  std::vector<TimelineTask> timeline;
  times_.assign(slots_, {});
  record_ = true;
  const Nanos step = Simulate();
  record_ = false;
  if (step == kNever) return timeline;
  constexpr TaskKind kKinds[] = {TaskKind::kForward, TaskKind::kTransfer, TaskKind::kBackward,
                                 TaskKind::kGradient, TaskKind::kSynchronize};
  for (uint32_t block = 0; block < BlockCount(); ++block) {
    const BlockRole role = roles_[block];
    for (uint32_t i = 0; i < blocks_[block].size; ++i) {
      const TaskTimes& times = times_[blocks_[block].base + i];
      TimelineTask task = {kKinds[static_cast<size_t>(role.kind)],
                           role.of,
                           i,
                           kNoResource,
                           times.ready,
                           times.start,
                           times.end};
      switch (role.kind) {
        case BlockKind::kForward:
        case BlockKind::kBackward:
          task.resource = ops_[role.of].config.devices[i];
          break;
        case BlockKind::kTransfer:
          task.resource = edges_[role.of]->forward.tasks[i].resource;
          break;
        case BlockKind::kGradient:
          task.resource = edges_[role.of]->backward.tasks[i].resource;
          break;
        case BlockKind::kSync:
          task.resource = syncs_[role.of]->tasks.tasks[i].resource;
          break;
      }
      timeline.push_back(task);
    }
  }
  return timeline;
}

}  // namespace soapstone::planner
