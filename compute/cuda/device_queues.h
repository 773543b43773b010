// DeviceQueues: the streams of a cuda backend, points of them that one may wait for, and when they
// did what. Inside compute/cuda/ only.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "compute/kernel.h"

namespace soapstone::compute {

// Points and spans are as in Backend (kernel.h). Threading: one thread at a time, which has set the
// device.
class DeviceQueues {
 public:
  DeviceQueues() = default;
  ~DeviceQueues();
  DeviceQueues(const DeviceQueues&) = delete;
  DeviceQueues& operator=(const DeviceQueues&) = delete;
  absl::Status Open();

  cudaStream_t stream(Queue queue) const { return of(queue).stream; }
  uint64_t Mark(Queue queue);
  // What `queue` is asked for from now on begins when `point` is past.
  void Await(Queue queue, uint64_t point);
  void Wait(uint64_t point);
  bool Done(uint64_t point);
  void Finish();

  void Watch();
  // What `queue` is asked for from here on; empty: nothing worth a name.
  void Name(Queue queue, std::string_view name);
  std::vector<QueueSpan> Unwatch();

 private:
  struct Named {
    std::string name;
    cudaEvent_t begin = nullptr;
  };
  struct OfQueue {
    cudaStream_t stream = nullptr;
    std::deque<cudaEvent_t> points;  // [passed, passed + points.size())
    uint64_t passed = 1;             // number of the oldest point that is kept
    std::vector<Named> names;        // while watched
  };
  const OfQueue& of(Queue queue) const { return queues_[static_cast<size_t>(queue)]; }
  OfQueue& of(Queue queue) { return queues_[static_cast<size_t>(queue)]; }
  // Null: it is known to be past.
  cudaEvent_t EventOf(uint64_t point) const;
  void PassOne(OfQueue* queue);

  std::array<OfQueue, kQueues> queues_;
  std::vector<cudaEvent_t> free_events_;
  cudaEvent_t watched_since_ = nullptr;  // null: not watched
};

}  // namespace soapstone::compute
