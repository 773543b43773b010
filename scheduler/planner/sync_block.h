// The synchronization of one weight group as tasks: which devices hold which pieces of its
// parameters, what they send to whom once their gradients are complete, who applies, and what comes
// back. Used by the simulator.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "scheduler/planner/comm_block.h"

namespace soapstone::planner {

struct SyncBlock {
  CommTasks tasks;
  PartLists device_to;  // [device] → tasks that wait for the group's backward parts there
  std::vector<std::pair<uint32_t, int64_t>> held;  // device, bytes of parameters there
  std::vector<Load> loads;                         // of links, devices and servers
  int64_t bytes = 0;                               // of all messages
};

class SyncBuilder {
 public:
  SyncBuilder(const OpGraph* graph, const Machine* machine, BlockBuilder* builder);

  struct Member {
    const Split* split = nullptr;
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
  void FindPieces(uint32_t group, absl::Span<const Member> members);
  void AddParam(uint32_t param, absl::Span<const Member> members);
  void AddPiece(const std::vector<uint64_t>& mask, int64_t bytes);
  void BuildOwner(SyncBlock* block);
  void BuildRing(SyncBlock* block);
  void BuildServers(absl::Span<const uint32_t> servers, SyncBlock* block);
  Nanos ApplyTime(uint32_t device, int64_t held, int64_t received) const;
  static uint32_t AddTask(SyncBlock* block);
  // Of one flow, which occupies a device or a server.
  static uint32_t AddApply(uint32_t resource, Nanos busy, SyncBlock* block);
  // The apply sets these tasks free.
  static void SetDone(uint32_t apply, absl::Span<const uint32_t> tasks, SyncBlock* block);
  // The task waits for all backward parts of the device.
  void FollowParts(uint32_t device, uint32_t task, SyncBlock* block);

  const OpGraph* graph_;
  const Machine* machine_;
  BlockBuilder* builder_;
  uint32_t devices_;
  size_t words_;
  std::vector<uint32_t> all_servers_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<uint64_t>> piece_masks_;
  std::vector<uint32_t> backward_parts_;                     // [device]
  std::vector<std::pair<uint32_t, uint32_t>> device_tasks_;  // device, task that waits for it
};

}  // namespace soapstone::planner
