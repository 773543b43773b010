// What a simulator's strategy keeps on each device, and so how many micro-batches may be under way.
#include <algorithm>
#include <numeric>

#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {

void Simulator::AddMemory(uint32_t device, uint32_t micro_batch, int64_t bytes) {
  memory_[device] += bytes;
  if (activations_.empty()) return;
  activations_[device * static_cast<size_t>(graph_->micro_batches) + micro_batch] += bytes;
}

// With a(j) the activations of micro-batch j there, of which w that follow each other are held:
//   everything else + max over j of a(j) + .. + a(j + w − 1)
int64_t Simulator::MemoryOf(uint32_t device, uint32_t in_flight) const {
  const auto all = static_cast<size_t>(graph_->micro_batches);
  if (in_flight >= all) return memory_[device];
  const int64_t* const of = activations_.data() + device * all;
  int64_t held = std::accumulate(of, of + in_flight, int64_t{0});
  int64_t most = held;
  for (size_t j = in_flight; j < all; ++j) {
    held += of[j] - of[j - in_flight];
    most = std::max(most, held);
  }
  return memory_[device] - std::accumulate(of, of + all, int64_t{0}) + most;
}

// As many micro-batches as fit on all devices; where not even one does, what that needs more.
void Simulator::FindOverflow() {
  in_flight_ = static_cast<uint32_t>(graph_->micro_batches);
  const auto capacity = [this](uint32_t device) {
    return static_cast<int64_t>(machine_->kind_of(device).memory_bytes);
  };
  for (uint32_t d = 0; d < memory_.size(); ++d) {
    while (in_flight_ > 1 && MemoryOf(d, in_flight_) > capacity(d)) --in_flight_;
  }
  overflow_ = std::max<int64_t>(0, transfer_bytes_ + sync_bytes_ - options_.moved_bytes_max);
  for (uint32_t d = 0; d < memory_.size(); ++d) {
    overflow_ += std::max<int64_t>(0, MemoryOf(d, in_flight_) - capacity(d));
  }
}

}  // namespace soapstone::planner
