// Loads sums up what a strategy asks of the machine: how long each queue is busy, what each device
// keeps, how many bytes are sent. Simulator and Proposal add what comes into the strategy and take
// away what leaves it; bounds and runs of the timeline read the sums. It knows no order of tasks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/planner/blocks/block_cache.h"
#include "scheduler/planner/blocks/connection_graph.h"
#include "scheduler/planner/blocks/device_memory.h"
#include "strategy/machine.h"

namespace soapstone::planner {

// Whether a strategy can run.
struct MemoryFit {
  int64_t overflow = 0;    // bytes over the devices' memory and over what may be sent; 0: it can
  uint32_t in_flight = 1;  // micro-batches under way at most
  friend bool operator==(const MemoryFit&, const MemoryFit&) = default;
};

// Invariants:
//  1. Every sum is of the operators, connections and groups that were added since Clear and not
//     taken away: integers, so that the order of calls leaves no trace.
//  2. Queues are devices, links, servers, in this order; compute() has devices' computation alone,
//     communication() all that edges and groups use, of devices (applications of gradients) too.
//  3. fit() is of the last FindFit or set_fit, whatever was added since.
// Not to be shared between threads.
class Loads {
 public:
  struct Options {
    double optimizer_floats = 0;          // state kept by element of a parameter
    double memory_share = 1;              // of devices' memory, for what is counted
    int64_t moved_bytes_max = INT64_MAX;  // of all messages of a step
  };
  // Keeps the pointer, which must outlive it. resources: of all queues.
  Loads(const ConnectionGraph* connections, const Machine& machine, uint32_t resources,
        Options options);

  // Forgets all that was added. Of a parameter itself, its gradient, optimizer state, and a copy
  // for each step of staleness will be kept.
  void Clear(uint32_t staleness);
  // sign: 1 adds, −1 takes away.
  void AddOp(uint32_t op, const OpState& state, int sign);
  void AddEdge(uint32_t edge, const EdgeBlock& block, int sign);
  void AddSync(const SyncBlock& sync, int sign);

  void FindFit();
  const MemoryFit& fit() const { return fit_; }
  void set_fit(const MemoryFit& fit) { fit_ = fit; }
  int64_t HeldBytes(uint32_t device, uint32_t in_flight) const {
    return memory_.Held(device, in_flight);
  }
  int64_t MemoryOf(uint32_t device) const { return memory_.Held(device, fit_.in_flight); }

  size_t devices() const { return compute_.size(); }
  size_t resources() const { return communication_.size(); }
  const std::vector<Nanos>& compute() const { return compute_; }              // by device
  const std::vector<Nanos>& communication() const { return communication_; }  // by queue
  Nanos BusyOf(size_t resource) const {
    return communication_[resource] + (resource < compute_.size() ? compute_[resource] : 0);
  }
  Nanos BusiestDevice() const;  // by computation alone
  Nanos BusiestQueue() const;
  // Whether each queue could serve its load in so much time.
  bool Allow(Nanos cutoff) const;
  int64_t transfer_bytes() const { return transfer_bytes_; }  // between operators
  int64_t sync_bytes() const { return sync_bytes_; }          // for synchronization

 private:
  const ConnectionGraph* connections_;
  const Options options_;
  double copies_ = 2;  // of a parameter
  std::vector<Nanos> compute_, communication_;
  DeviceMemory memory_;
  int64_t transfer_bytes_ = 0, sync_bytes_ = 0;
  MemoryFit fit_;
};

}  // namespace soapstone::planner
