// MicroBatchWindow knows which micro-batches of each iteration of a run are under way, where memory
// does not let all be. Timeline::Run alone uses it, and tells it of backward tasks that have ended.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace soapstone::planner {

// Invariants:
//  1. Micro-batch j ≥ w may begin when all backward tasks of micro-batches 0 to j − w have ended,
//     at the latest end of these; it is begun once, and micro-batches begin in ascending order.
//     Those before w begin without being told.
//  2. Iterations do not see each other.
class MicroBatchWindow {
 public:
  // Of runs in which all micro-batches are under way at once: bounded() is false.
  MicroBatchWindow() = default;
  // in_flight: w. backward_tasks: by micro-batch, at least one each.
  MicroBatchWindow(uint32_t iterations, uint32_t in_flight, std::vector<uint32_t> backward_tasks)
      : in_flight_(in_flight) {
    const Iteration first = {.left = std::move(backward_tasks), .ends = {}};
    iterations_.assign(iterations, first);
    for (Iteration& iteration : iterations_) iteration.ends.assign(iteration.left.size(), 0);
  }

  bool bounded() const { return !iterations_.empty(); }

  // A backward task has ended. Calls begin(micro-batch, at) for each that may begin by it.
  template <typename Begin>
  void EndBackward(uint32_t iteration, uint32_t micro_batch, Nanos end, const Begin& begin) {
    Iteration& here = iterations_[iteration];
    here.ends[micro_batch] = std::max(here.ends[micro_batch], end);
    --here.left[micro_batch];
    const auto all = static_cast<uint32_t>(here.left.size());
    for (; here.over < all && here.left[here.over] == 0; ++here.over) {
      here.end = std::max(here.end, here.ends[here.over]);
      const uint32_t next = here.over + in_flight_;
      if (next < all) begin(next, here.end);
    }
  }

 private:
  struct Iteration {
    std::vector<uint32_t> left;  // by micro-batch: backward tasks
    std::vector<Nanos> ends;     // by micro-batch: the last of its backward tasks so far
    uint32_t over = 0;           // so many micro-batches, from the first on
    Nanos end = 0;               // of the last of these
  };
  uint32_t in_flight_ = 0;
  std::vector<Iteration> iterations_;
};

}  // namespace soapstone::planner
