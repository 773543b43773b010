// DeviceMemory counts what a strategy keeps on each device, and so how many micro-batches may be
// under way. It is a part of Loads, which says what is kept; it knows neither operators nor time.
//
// Memory bounds how many micro-batches are under way: as many as fit on every device, and one at
// least. With a(j) the activations of micro-batch j on a device, of which w that follow each other
// are held, it needs
//   everything else + max over j of a(j) + .. + a(j + w − 1)
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "strategy/machine.h"

namespace soapstone::planner {

// Invariants:
//  1. Held(d, w) is the formula above for the sum of what was added since Clear; so what is added
//     and taken away again leaves no trace.
//  2. Held grows with w, and Held(d, w) for w ≥ the number of micro-batches is all that was added.
//  3. Excess(InFlight()) is 0 where anything fits at all; InFlight() is the greatest such number,
//     or 1.
// Not to be shared between threads.
class DeviceMemory {
 public:
  // share: of a device's memory that what is counted here may take.
  DeviceMemory(const Machine& machine, uint32_t micro_batches, double share = 1);

  void Clear();
  // Outputs, and what is received: kept while the micro-batch is under way. Negative: taken away.
  void AddMemory(uint32_t device, uint32_t micro_batch, int64_t bytes) {
    all_[device] += bytes;
    if (!activations_.empty()) activations_[device * size_t{micro_batches_} + micro_batch] += bytes;
  }
  // Parameters and what is kept for them: always there.
  void AddParameters(uint32_t device, int64_t bytes) { all_[device] += bytes; }

  // Bytes, where so many micro-batches are under way.
  int64_t Held(uint32_t device, uint32_t in_flight) const;
  // As many micro-batches as fit on all devices, and one at least.
  uint32_t InFlight() const;
  // Bytes over the devices' memory, of all of them together.
  int64_t Excess(uint32_t in_flight) const;

 private:
  const uint32_t micro_batches_;
  std::vector<int64_t> capacity_;  // by device
  std::vector<int64_t> all_;       // by device, were all micro-batches under way
  // [device · micro-batches + micro-batch] what AddMemory added; empty where there is one only.
  std::vector<int64_t> activations_;
};

}  // namespace soapstone::planner
