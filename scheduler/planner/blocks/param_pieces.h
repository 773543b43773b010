// ParamPieces: cuts the parameters of a parameter group where any of its operators cuts them, and
// says which devices hold which piece. Called by SyncBuilder. It knows no time, and no messages.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/blocks/op_split.h"

namespace soapstone::planner {

// How an operator is split, and where its parts are.
struct PlacedSplit {
  const OpSplit* split = nullptr;
  absl::Span<const uint32_t> devices;  // by part
};

// Pieces with one set of holders, together.
struct ParamPiece {
  std::vector<uint32_t> holders;  // devices, ascending; at least one
  int64_t bytes = 0;
  std::vector<int64_t> cells;  // bytes of each of those that it is made of
};

// Invariants, of the last Find:
//  1. No two pieces have the same holders; each byte of the group that somebody holds is in one.
//  2. Pieces are in the order in which their first cells were found.
// Keeps its memory between calls. Not to be shared between threads.
class ParamPieces {
 public:
  // Keeps the pointer, which must outlive it. devices: how many there are.
  ParamPieces(const OpGraph* graph, uint32_t devices)
      : graph_(graph), devices_(devices), words_((devices + 63) / 64) {}

  // ops: by operator of the graph; those of the group are read.
  const std::vector<ParamPiece>& Find(uint32_t group, absl::Span<const PlacedSplit> ops);

 private:
  // One operator's use of a parameter: the devices of each block.
  struct Use {
    const ParamSplit* split = nullptr;
    std::vector<uint64_t> masks;  // [block · words + word]
    // [dimension][interval of the common refinement] → index of the block along it
    std::vector<std::vector<uint32_t>> index;
  };
  void AddParam(uint32_t param, absl::Span<const PlacedSplit> ops);
  absl::Span<Use> FindUses(uint32_t param, absl::Span<const PlacedSplit> ops);
  void CutAtBoundaries(const ParamSplit& first, absl::Span<Use> uses);
  void AddPiece(const std::vector<uint64_t>& mask, int64_t bytes);

  const OpGraph* graph_;
  uint32_t devices_;
  size_t words_;
  // Of the parameter that is being added, and memory for others.
  std::vector<Use> uses_;
  std::vector<std::vector<int64_t>> cuts_;  // by dimension: begins of intervals, and the end
  std::vector<ParamPiece> pieces_;
  std::vector<std::vector<uint64_t>> piece_masks_;  // by piece
};

}  // namespace soapstone::planner
