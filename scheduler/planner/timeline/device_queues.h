// The tasks that wait for their devices in a simulation of micro-batches or of many iterations: of
// each device in the order of (turn, key). Turns are the micro-batches of iterations; keys are the
// simulator's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace soapstone::planner {

class DeviceQueues {
 public:
  void Clear(size_t devices) {
    queues_.resize(devices);
    for (std::vector<Task>& queue : queues_) queue.clear();
  }

  bool empty(uint32_t device) const { return queues_[device].empty(); }

  void Add(uint32_t device, uint64_t turn, uint64_t key) {
    std::vector<Task>& queue = queues_[device];
    queue.emplace_back(turn, key);
    std::push_heap(queue.begin(), queue.end(), std::greater<>());
  }

  // The key of the first. REQUIRES !empty(device)
  uint64_t Take(uint32_t device) {
    std::vector<Task>& queue = queues_[device];
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const uint64_t key = queue.back().second;
    queue.pop_back();
    return key;
  }

 private:
  using Task = std::pair<uint64_t, uint64_t>;  // turn, key
  std::vector<std::vector<Task>> queues_;      // by device, heaps
};

}  // namespace soapstone::planner
