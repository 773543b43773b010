// Bounds says what a step takes at least, from operators' times and loads, before any task is
// looked at. Simulator asks before it simulates a proposal; a run of the timeline that has a cutoff
// uses what is still to come behind each operator and device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/blocks/block_cache.h"
#include "scheduler/planner/blocks/connection_graph.h"

namespace soapstone::planner {

// Invariants:
//  1. PathBound and DeviceBound are at most the step's time under these operators' states, whatever
//     is sent how.
//  2. After both, for the operators that were given: no task of operator o ends less than
//     tail_forward(o), or tail_backward(o), before the step does; and a device that computes at
//     time t, its last task then ending, has device_tail(d) to come behind it. Until the next call
//     of PathBound.
// Not to be shared between threads.
class Bounds {
 public:
  // Keeps the pointer, which must outlive it.
  Bounds(const ConnectionGraph* connections, size_t devices);

  // The longest path through the operators, forward and back, where each takes what its quickest
  // part does, but for one, which takes what its slowest does. Only over connections by which every
  // part waits for some part, or is waited for by some:
  //   head(o) = max over o's predecessors a of head(a) + min(a),  tail likewise from the end,
  //   bound = max over o of head(o) + max(o) + tail(o)
  Nanos PathBound(absl::Span<const OpState* const> ops);
  // A device computes for its load, not before some operator of it can have its inputs, and when it
  // is done, what follows some backward part of it is still to come:
  //   bound = max over d of min head + load(d) + min tail
  // REQUIRES PathBound of the same operators before. compute: load by device.
  Nanos DeviceBound(absl::Span<const OpState* const> ops, const std::vector<Nanos>& compute);

  Nanos tail_forward(uint32_t op) const { return tail_forward_[op]; }
  Nanos tail_backward(uint32_t op) const { return tail_backward_[op]; }
  Nanos device_tail(size_t device) const { return device_tail_[device]; }

 private:
  const ConnectionGraph* connections_;
  std::vector<Nanos> head_forward_, head_backward_, tail_forward_, tail_backward_;  // by operator
  std::vector<Nanos> device_head_, device_tail_;                                    // by device
};

}  // namespace soapstone::planner
