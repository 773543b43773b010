// TouchedBlocks lists which operators, connections and parameter groups a proposal's changes touch:
// what has to be found, summed up and placed anew. Proposal fills it; it and TaskGraph read it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/blocks/change.h"
#include "scheduler/planner/blocks/connection_graph.h"

namespace soapstone::planner {

// Invariants, of the last Collect:
//  1. ops(): the changed operators and those connected to them, whose waits change; edges(): the
//     connections at changed operators; groups(): those of changed operators' parameters, and those
//     that other servers keep. Each once, and nothing else.
//  2. A function of the changes: what was collected before leaves no trace.
// Not to be shared between threads.
class TouchedBlocks {
 public:
  // Keeps the pointer, which must outlive it.
  explicit TouchedBlocks(const ConnectionGraph* connections);

  void Collect(absl::Span<const Change> changes, absl::Span<const ServerChange> servers);
  const std::vector<uint32_t>& ops() const { return ops_; }
  const std::vector<uint32_t>& edges() const { return edges_; }  // connections
  const std::vector<uint32_t>& groups() const { return groups_; }

 private:
  enum Bit : uint8_t { kOp = 1, kGroup = 2, kEdge = 4 };
  void Add(uint32_t id, Bit bit, std::vector<uint32_t>* into) {
    if ((mark_[id] & bit) != 0) return;
    mark_[id] |= bit;
    into->push_back(id);
  }

  const ConnectionGraph* connections_;
  std::vector<uint32_t> ops_, edges_, groups_;
  std::vector<uint8_t> mark_;  // by id: what is in the lists already; 0 between calls
};

}  // namespace soapstone::planner
