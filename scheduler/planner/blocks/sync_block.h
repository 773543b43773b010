// The synchronization of one parameter group as tasks: which devices hold which pieces of its
// parameters, what they send to whom once their gradients are complete, who applies, and what comes
// back. Used by the simulator.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "scheduler/planner/blocks/comm_block.h"
#include "scheduler/planner/blocks/flow_builder.h"
#include "scheduler/planner/blocks/param_pieces.h"

namespace soapstone::planner {

struct SyncBlock {
  CommTasks tasks;
  PartLists device_to;      // [device] → tasks that wait for the group's backward parts there
  Array<DeviceBytes> held;  // of parameters there
  Array<DeviceBytes>
      kept_elsewhere;  // of those, in ranges of others that have the optimizer's state
  Array<Load> loads;   // of links, devices and servers
  int64_t bytes = 0;   // of all messages
  BlockMemory memory;  // of all of these
};

// Keeps its memory between calls. Not to be shared between threads.
class SyncBuilder {
 public:
  struct Options {
    // A ring is what workers run (strategy/pieces.h): each holder of a piece keeps an equal range
    // of it, as an owner does. Else messages go from each holder to the next, and all apply all.
    bool rings_by_ranges = false;
  };
  // Keeps the pointers, which must outlive it.
  SyncBuilder(const OpGraph* graph, const Machine* machine, FlowBuilder* flows, Options options);

  // ops: by operator of the graph. A device's gradient is complete when the last backward part
  // there of any operator of the group that has parameters is. servers: that keep the group, of
  // kServers; none: all.
  void Build(uint32_t group, absl::Span<const PlacedSplit> ops, Synchronization synchronization,
             absl::Span<const uint32_t> servers, SyncBlock* block);

 private:
  void CountParts(uint32_t group, absl::Span<const PlacedSplit> ops);
  // What a holder has of what an owner keeps.
  struct Share {
    uint32_t owner, holder;
    int64_t bytes;
  };
  static std::vector<Share> SharesOfOwners(const std::vector<ParamPiece>& pieces);
  static std::vector<Share> SharesInRanges(const std::vector<ParamPiece>& pieces);
  void CountHeld(const std::vector<ParamPiece>& pieces);
  // Shares of one owner and holder become one; by owner and holder.
  static void AddUp(std::vector<Share>* shares);
  void BuildOwners(std::vector<Share> shares);
  void BuildInRanges(const std::vector<ParamPiece>& pieces);
  void PushToOwners(const std::vector<Share>& shares, const std::vector<uint32_t>& apply_of);
  void PullFromOwners(const std::vector<Share>& shares, const std::vector<uint32_t>& apply_of);
  uint32_t NodeOf(uint32_t device) const { return machine_->devices()[device].node; }
  void BuildRing(const std::vector<ParamPiece>& pieces);
  void BuildServers(const std::vector<ParamPiece>& pieces, absl::Span<const uint32_t> servers);
  Nanos ApplyTime(uint32_t device, int64_t held, int64_t received) const;
  uint32_t AddTask();
  // Of one flow, which occupies a device or a server.
  uint32_t AddApply(uint32_t resource, Nanos busy);
  // The apply sets these tasks free.
  void SetDone(uint32_t apply, absl::Span<const uint32_t> tasks);
  // The task waits for all backward parts of the device.
  void FollowParts(uint32_t device, uint32_t task);

  const OpGraph* graph_;
  const Machine* machine_;
  FlowBuilder* flows_;
  const Options options_;
  uint32_t devices_;
  std::vector<uint32_t> all_servers_;
  ParamPieces pieces_;
  std::vector<uint32_t> backward_parts_;                     // [device]
  std::vector<std::pair<uint32_t, uint32_t>> device_tasks_;  // device, task that waits for it
  // Of the group that is being made.
  OpenTasks tasks_;
  std::vector<uint32_t> device_to_;
  std::vector<DeviceBytes> held_, kept_elsewhere_;
  std::vector<Load> loads_;
  int64_t bytes_ = 0;
};

}  // namespace soapstone::planner
