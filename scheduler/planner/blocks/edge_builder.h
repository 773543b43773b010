// EdgeBuilder: makes the block of a connection between two operators' parts (comm_block.h): a task
// a sending node, in it a flow a receiving node, forward and back. Called by BlockCache.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/blocks/comm_block.h"
#include "scheduler/planner/blocks/edge_messages.h"
#include "scheduler/planner/blocks/flow_builder.h"
#include "scheduler/planner/blocks/op_split.h"
#include "strategy/machine.h"

namespace soapstone::planner {

// Invariants, of a block that is built:
//  1. A consumer's part waits for each producer's part on its device that it reads from, and for
//     each node that sends to it, once.
//  2. It is a function of the arguments: what was built before leaves no trace.
// Keeps its memory between calls. Not to be shared between threads.
class EdgeBuilder {
 public:
  // Keeps the pointers, which must outlive it.
  EdgeBuilder(const Machine* machine, FlowBuilder* flows);

  // overlaps: of each edge between the two operators. gradient: there is a way back.
  void Build(absl::Span<const std::vector<Overlap>* const> overlaps,
             absl::Span<const uint32_t> from_devices, absl::Span<const uint32_t> to_devices,
             bool gradient, EdgeBlock* block);

 private:
  struct Direction {
    OpenTasks tasks;
    std::vector<uint32_t> to;     // whom a sender's part sets free, as PartLists
    std::vector<uint32_t> waits;  // by receiver's part
  };
  void FindLocal(absl::Span<const std::vector<Overlap>* const> overlaps,
                 absl::Span<const uint32_t> from_devices, absl::Span<const uint32_t> to_devices);
  void FindReceivers(absl::Span<const uint32_t> order, bool forward);
  void AddTransfers(absl::Span<const uint32_t> from_devices, bool forward, size_t senders);
  void AddJoins(Direction* direction);
  void Pack(EdgeBlock* block) const;

  const Machine* machine_;
  FlowBuilder* flows_;
  EdgeMessages messages_;
  std::vector<uint32_t> flows_to_;                // [node]
  std::vector<std::vector<uint32_t>> receivers_;  // [node] parts
  std::vector<uint32_t> seen_by_sender_;
  uint32_t stamp_ = 0;
  std::vector<std::pair<uint32_t, uint32_t>> local_, pairs_;
  // Of the edge that is being made.
  Direction forward_, backward_;
  std::vector<Load> loads_;
  std::vector<DeviceBytes> received_;
  int64_t bytes_ = 0;
};

}  // namespace soapstone::planner
