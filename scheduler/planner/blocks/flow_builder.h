// FlowBuilder: makes flows of messages that travel together, cuts them into segments where flows
// are to share links fairly, and adds up what flows load on links. comm_block.h has the rules.
// Called by EdgeBuilder and SyncBuilder, one flow after another. It knows no operators.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/blocks/comm_block.h"
#include "strategy/machine.h"

namespace soapstone::planner {

// Invariants:
//  1. Between EndFlow and the next AddMessage no flow is open.
//  2. A flow uses each link once, however many of its messages travel by it, for the sum of their
//     times.
//  3. The segments of a flow take as long on each link as the whole flow, but each 1 ns at least.
// Not to be shared between threads.
class FlowBuilder {
 public:
  struct Options {
    int64_t segment_bytes = 0;  // 0: flows are whole
  };
  // Keeps the pointer, which must outlive it.
  FlowBuilder(const Machine* machine, Options options);

  // Queues: devices, then links, then servers.
  uint32_t resources() const { return resources_; }
  uint32_t LinkResource(uint32_t link) const { return devices_ + link; }
  uint32_t ServerResource(uint32_t server) const { return devices_ + links_ + server; }
  bool cuts_flows() const { return options_.segment_bytes > 0; }

  // A flow is made of messages, then ended: it becomes a part of the last task, or segments behind
  // it, which are tasks. done: who waits for its delivery. REQUIRES a task.
  void AddMessage(absl::Span<const uint32_t> path, int64_t bytes);
  void EndFlow(absl::Span<const uint32_t> done, OpenTasks* to);

  // Adds up the loads of tasks, by resource ascending.
  void SumLoads(absl::Span<const OpenTasks* const> blocks, std::vector<Load>* loads);

 private:
  Nanos BusyOf(uint32_t link, int64_t bytes) const;

  const Machine* machine_;
  Options options_;
  uint32_t devices_, links_, resources_;
  std::vector<double> ns_per_byte_;  // by link
  std::vector<LinkUse> open_;        // of the flow that is being made
  std::vector<int32_t> open_at_;     // by resource, into open_; −1: not there
  int64_t open_bytes_ = 0;
  std::vector<Nanos> sums_;        // by resource; 0 between calls
  std::vector<uint32_t> touched_;  // memory of SumLoads
};

}  // namespace soapstone::planner
