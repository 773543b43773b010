// Proposals of the search by random walk: what is changed at once. One operator at a time is seldom
// enough: the synchronization of a layer disappears only when all of its time steps move together.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/search/shard_placement.h"
#include "scheduler/planner/search/space.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {

// Draws a proposal:
//  scattered  one operator, each part on any device (FlexFlow's proposal)
//  block      one operator, or a whole parameter group, on a block of devices
//  range      neighbours in the graph's order, all on one block
//  copy       an operator, or its group, takes a neighbour's degrees and devices
//  shift      the devices of an operator, group or range move on by a number of devices
//  degree     one degree of an operator, or group, is doubled or halved
//  stage      where stages are moved: up to four parameter groups next to a boundary between
//             stages take the configuration of the other side (stage_shift.h)
//  balance    where the space is uneven: the cuts of an operator, a group, all that are split
//             alike, or all, are set in proportion to speeds, or beside that, or one boundary moves
//             on. Half of what scattered, block, range and degree draw is then in proportion as
//             well.
//  servers    where several servers synchronize: others keep a group, a range of groups, or all
//             (shard_placement.h). Groups that the servers of their nodes keep stay with such
//             servers in the others; some of those take what they change there.
// In a graph in micro-batches an operator is, but for some draws, that of all of them: apart they
// would synchronize its parameters between more devices.
// Not symmetric (copies are not), so the walk anneals; it does not sample.
class ProposalGenerator {
 public:
  // Keeps the pointer. Whether stages are moved: where there are micro-batches, or iterations
  // overlap.
  explicit ProposalGenerator(const Space* space)
      : ProposalGenerator(space, space->graph().micro_batches > 1) {}
  ProposalGenerator(const Space* space, bool stages)
      : space_(space), stages_(stages), shards_(space) {}

  // The changes, valid until the next call; none where the draw has nothing to change, or nothing
  // but servers().
  absl::Span<const Change> Draw(const Simulator& now, RandomSource* random);
  // Of the last draw, to be proposed with its changes.
  absl::Span<const ServerChange> servers() const { return shards_.changes(); }

 private:
  enum class Scope : uint8_t { kOp, kGroup, kRange };
  void Select(Scope scope, RandomSource* random);
  void SelectAlike(const Simulator& now, RandomSource* random);
  OpConfig* Add(uint32_t op);
  void AddIfLegal(uint32_t op, const OpConfig& like);
  void Scatter(RandomSource* random);
  void Place(Scope scope, RandomSource* random);
  void Copy(const Simulator& now, RandomSource* random);
  void Shift(const Simulator& now, Scope scope, RandomSource* random);
  void ScaleDegree(const Simulator& now, Scope scope, RandomSource* random);
  void DrawStage(const Simulator& now, RandomSource* random);
  void Balance(const Simulator& now, RandomSource* random);
  void ShiftBoundary(const Simulator& now, RandomSource* random);

  const Space* space_;
  const bool stages_;
  ShardMoves shards_;
  std::vector<uint32_t> selected_;
  std::vector<Change> changes_;  // the first count_ count
  size_t count_ = 0;
  OpConfig drawn_;
  std::vector<double> weights_;  // by device
};

}  // namespace soapstone::planner
