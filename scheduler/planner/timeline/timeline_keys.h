// Keys order the tasks of a run of the timeline. A key is from the top bit down the time at which
// the task may begin, its iteration, its slot; how many bits each has depends on the run.
// Timeline::Run alone uses them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/ids.h"

namespace soapstone::planner {

// Invariants:
//  1. ReadyOf, IterationOf and SlotOf give back what Of was given, for a time that fits, an
//     iteration up to their number, and a slot below theirs.
//  2. Keys order by (time, iteration, slot).
//  3. A time that fits leaves the key's top bit 0.
class TimelineKeys {
 public:
  // iterations: 0: keys have none.
  TimelineKeys(size_t slots, uint32_t iterations)
      : slot_bits_(static_cast<uint32_t>(std::bit_width(slots))),
        time_shift_(slot_bits_ + static_cast<uint32_t>(std::bit_width(iterations))),
        slot_mask_((uint64_t{1} << slot_bits_) - 1),
        iteration_mask_((uint32_t{1} << std::bit_width(iterations)) - 1),
        time_max_(Nanos{1} << (63 - time_shift_)) {}

  bool Fits(Nanos at) const { return at < time_max_; }
  // The latest time that fits.
  Nanos last_time() const { return time_max_ - 1; }

  uint64_t IterationPart(uint32_t iteration) const { return uint64_t{iteration} << slot_bits_; }
  uint64_t TimePart(Nanos at) const { return static_cast<uint64_t>(at) << time_shift_; }
  uint64_t Of(Nanos at, uint64_t iteration_part, uint32_t slot) const {
    return TimePart(at) | iteration_part | slot;
  }

  Nanos ReadyOf(uint64_t key) const { return static_cast<Nanos>(key >> time_shift_); }
  uint32_t SlotOf(uint64_t key) const { return static_cast<uint32_t>(key & slot_mask_); }
  uint32_t IterationOf(uint64_t key) const {
    return static_cast<uint32_t>(key >> slot_bits_) & iteration_mask_;
  }

 private:
  uint32_t slot_bits_, time_shift_;
  uint64_t slot_mask_;
  uint32_t iteration_mask_;
  Nanos time_max_;
};

}  // namespace soapstone::planner
