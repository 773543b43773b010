// Where parameters are kept: the servers of a parameter group that a search tries. A group whose
// devices are of one node is best kept there, as nothing then passes a NIC; a small one by one
// server, which takes fewer messages. Used by descents and proposals.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/search/space.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {

class ShardPlacement {
 public:
  // Keeps the pointer.
  explicit ShardPlacement(const Space* space);

  // Servers synchronize, and there are several of them: else nothing can be chosen.
  bool HasChoice(const Simulator& now) const {
    return now.synchronization() == Synchronization::kServers && servers_ > 1;
  }
  uint32_t servers() const { return servers_; }
  const std::vector<uint32_t>& groups() const { return groups_; }  // that have parameters

  // The servers of the nodes whose devices hold the group once `changes` are made; as in
  // Strategy::servers, so none where that is all of them. Where those nodes have none, none either.
  std::vector<uint32_t> OfItsNodes(const Simulator& now, uint32_t group,
                                   absl::Span<const Change> changes = {}) const;

  // Each of these groups whole to one server: those that push most first, each to the server that
  // is pushed least so far, of all groups. Ties: the first.
  std::vector<ServerChange> Spread(const Simulator& now, absl::Span<const uint32_t> groups) const;

 private:
  const Space* space_;
  uint32_t servers_;
  std::vector<uint32_t> groups_;
  std::vector<std::vector<uint32_t>> of_node_;  // servers
};

// Draws changes of who keeps what.
class ShardMoves {
 public:
  explicit ShardMoves(const Space* space) : space_(space), placement_(space) {}

  bool HasChoice(const Simulator& now) const { return placement_.HasChoice(now); }
  // Of one group, a range of them in the graph's order, or all: to all servers, to one, each to one
  // in turn (Spread), or to those of its nodes.
  void Draw(const Simulator& now, RandomSource* random);
  // The groups of these operators go to the servers of the nodes on which they will be: those that
  // such servers keep already, or all.
  void Follow(const Simulator& now, absl::Span<const Change> changes, bool all);
  void Clear() { changes_.clear(); }
  // Of the last call; what is as it was is none.
  absl::Span<const ServerChange> changes() const { return changes_; }

 private:
  void DropUnchanged(const Simulator& now);

  const Space* space_;
  ShardPlacement placement_;
  std::vector<ServerChange> changes_;
};

}  // namespace soapstone::planner
