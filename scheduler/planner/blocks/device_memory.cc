#include "scheduler/planner/blocks/device_memory.h"

#include <algorithm>
#include <numeric>

namespace soapstone::planner {

DeviceMemory::DeviceMemory(const Machine& machine, uint32_t micro_batches, double share)
    : micro_batches_(micro_batches) {
  for (uint32_t device = 0; device < machine.devices().size(); ++device) {
    capacity_.push_back(
        static_cast<int64_t>(share * static_cast<double>(machine.kind_of(device).memory_bytes)));
  }
  all_.assign(capacity_.size(), 0);
  if (micro_batches > 1) activations_.assign(capacity_.size() * size_t{micro_batches}, 0);
}

void DeviceMemory::Clear() {
  std::fill(all_.begin(), all_.end(), 0);
  std::fill(activations_.begin(), activations_.end(), 0);
}

int64_t DeviceMemory::Held(uint32_t device, uint32_t in_flight) const {
  if (in_flight >= micro_batches_) return all_[device];
  const int64_t* const of = activations_.data() + device * size_t{micro_batches_};
  int64_t held = std::accumulate(of, of + in_flight, int64_t{0});
  int64_t most = held;
  for (size_t j = in_flight; j < micro_batches_; ++j) {
    held += of[j] - of[j - in_flight];
    most = std::max(most, held);
  }
  return all_[device] - std::accumulate(of, of + micro_batches_, int64_t{0}) + most;
}

uint32_t DeviceMemory::InFlight() const {
  uint32_t in_flight = micro_batches_;
  for (uint32_t d = 0; d < all_.size(); ++d) {
    while (in_flight > 1 && Held(d, in_flight) > capacity_[d]) --in_flight;
  }
  return in_flight;
}

int64_t DeviceMemory::Excess(uint32_t in_flight) const {
  int64_t excess = 0;
  for (uint32_t d = 0; d < all_.size(); ++d) {
    excess += std::max<int64_t>(0, Held(d, in_flight) - capacity_[d]);
  }
  return excess;
}

}  // namespace soapstone::planner
