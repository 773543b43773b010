// The synchronization of one weight group as tasks: which devices hold which pieces of its
// parameters, what they send to whom once their gradients are complete, who applies, and what comes
// back. Used by the simulator.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "scheduler/planner/blocks/comm_block.h"

namespace soapstone::planner {

struct SyncBlock {
  CommTasks tasks;
  PartLists device_to;      // [device] → tasks that wait for the group's backward parts there
  Array<DeviceBytes> held;  // of parameters there
  Array<Load> loads;        // of links, devices and servers
  int64_t bytes = 0;        // of all messages
  BlockMemory memory;       // of all of these
};

class SyncBuilder {
 public:
  SyncBuilder(const OpGraph* graph, const Machine* machine, BlockBuilder* builder);

  struct Member {
    const OpSplit* split = nullptr;
    absl::Span<const uint32_t> devices;
  };
  // members: by operator of the graph. A device's gradient is complete when the last backward part
  // there of any operator of the group that has parameters is. servers: that keep the group, of
  // kServers; none: all.
  void Build(uint32_t group, absl::Span<const Member> members, Synchronization synchronization,
             absl::Span<const uint32_t> servers, SyncBlock* block);

 private:
  // Pieces with one set of holders, together.
  struct Piece {
    std::vector<uint32_t> holders;  // ascending
    int64_t bytes = 0;
  };
  // One operator's use of a parameter: the devices of each block.
  struct Use {
    const ParamSplit* split = nullptr;
    std::vector<uint64_t> masks;  // [block · words + word]
    // [dimension][interval of the common refinement] → index of the block along it
    std::vector<std::vector<uint32_t>> index;
  };
  void FindPieces(uint32_t group, absl::Span<const Member> members);
  void AddParam(uint32_t param, absl::Span<const Member> members);
  void AddPiece(const std::vector<uint64_t>& mask, int64_t bytes);
  // What a holder has of an owner's pieces.
  struct Share {
    uint32_t owner, holder;
    int64_t bytes;
  };
  std::vector<Share> SharesOfOwners() const;
  void BuildOwner();
  void PushToOwners(const std::vector<Share>& shares, const std::vector<uint32_t>& apply_of);
  void PullFromOwners(const std::vector<Share>& shares, const std::vector<uint32_t>& apply_of);
  uint32_t NodeOf(uint32_t device) const { return machine_->devices()[device].node; }
  void BuildRing();
  void BuildServers(absl::Span<const uint32_t> servers);
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
  BlockBuilder* builder_;
  uint32_t devices_;
  size_t words_;
  std::vector<uint32_t> all_servers_;
  // Of the parameter that is being added, and memory for others.
  std::vector<Use> uses_;
  std::vector<std::vector<int64_t>> cuts_;  // by dimension: begins of intervals, and the end
  std::vector<Piece> pieces_;
  std::vector<std::vector<uint64_t>> piece_masks_;
  std::vector<uint32_t> backward_parts_;                     // [device]
  std::vector<std::pair<uint32_t, uint32_t>> device_tasks_;  // device, task that waits for it
  // Of the group that is being made.
  OpenTasks tasks_;
  std::vector<uint32_t> device_to_;
  std::vector<DeviceBytes> held_;
  std::vector<Load> loads_;
  int64_t bytes_ = 0;
};

}  // namespace soapstone::planner
