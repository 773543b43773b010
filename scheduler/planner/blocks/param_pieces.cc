#include "scheduler/planner/blocks/param_pieces.h"

#include <algorithm>
#include <utility>

namespace soapstone::planner {

void ParamPieces::AddPiece(const std::vector<uint64_t>& mask, int64_t bytes) {
  for (size_t i = piece_masks_.size(); i-- > 0;) {
    if (piece_masks_[i] != mask) continue;
    pieces_[i].bytes += bytes;
    pieces_[i].cells.push_back(bytes);
    return;
  }
  ParamPiece piece = {.bytes = bytes, .cells = {bytes}};
  for (uint32_t d = 0; d < devices_; ++d) {
    if ((mask[d / 64] >> (d % 64) & 1) != 0) piece.holders.push_back(d);
  }
  if (piece.holders.empty()) return;
  piece_masks_.push_back(mask);
  pieces_.push_back(std::move(piece));
}

absl::Span<ParamPieces::Use> ParamPieces::FindUses(uint32_t param,
                                                   absl::Span<const PlacedSplit> ops) {
  const std::vector<uint32_t>& users = graph_->params[param].ops;
  if (uses_.size() < users.size()) uses_.resize(users.size());
  const absl::Span<Use> uses(uses_.data(), users.size());
  for (size_t i = 0; i < users.size(); ++i) {
    const uint32_t op = users[i];
    const std::vector<uint32_t>& of_op = graph_->ops[op].params;
    const size_t at =
        static_cast<size_t>(std::find(of_op.begin(), of_op.end(), param) - of_op.begin());
    const ParamSplit& split = ops[op].split->params[at];
    Use& use = uses[i];
    use.split = &split;
    use.masks.assign(split.blocks * words_, 0);
    for (uint32_t part = 0; part < split.block_of_part.size(); ++part) {
      const uint32_t device = ops[op].devices[part];
      use.masks[split.block_of_part[part] * words_ + device / 64] |= uint64_t{1} << (device % 64);
    }
  }
  return uses;
}

// The common refinement, by dimension, and where each use's blocks are in it.
void ParamPieces::CutAtBoundaries(const ParamSplit& first, absl::Span<Use> uses) {
  const size_t rank = first.sides.size();
  if (cuts_.size() < rank) cuts_.resize(rank);
  for (size_t t = 0; t < rank; ++t) {
    cuts_[t].clear();
    for (const Use& use : uses) {
      cuts_[t].insert(cuts_[t].end(), use.split->begins[t].begin(), use.split->begins[t].end());
    }
    std::sort(cuts_[t].begin(), cuts_[t].end());
    cuts_[t].erase(std::unique(cuts_[t].begin(), cuts_[t].end()), cuts_[t].end());
    for (Use& use : uses) {
      if (use.index.size() <= t) use.index.emplace_back();
      std::vector<uint32_t>& index = use.index[t];
      index.clear();
      const std::vector<int64_t>& begins = use.split->begins[t];
      uint32_t at = 0;
      for (int64_t cut : cuts_[t]) {
        while (at + 1 < begins.size() && begins[at + 1] <= cut) ++at;
        index.push_back(at);
      }
    }
    cuts_[t].push_back(first.sides[t]);
  }
}

// Cuts the parameter at all boundaries of all its operators; each cell's holders are the devices
// of the blocks, one an operator, in which it lies.
void ParamPieces::AddParam(uint32_t param, absl::Span<const PlacedSplit> ops) {
  const absl::Span<Use> uses = FindUses(param, ops);
  const ParamSplit& first = *uses[0].split;
  const size_t rank = first.sides.size();
  CutAtBoundaries(first, uses);
  std::vector<size_t> cell(rank, 0);
  std::vector<uint64_t> mask(words_);
  while (true) {
    int64_t elements = first.sections;
    for (size_t t = 0; t < rank; ++t) elements *= cuts_[t][cell[t] + 1] - cuts_[t][cell[t]];
    std::fill(mask.begin(), mask.end(), 0);
    for (const Use& use : uses) {
      size_t block = 0;
      for (size_t t = 0; t < rank; ++t) {
        block = block * use.split->begins[t].size() + use.index[t][cell[t]];
      }
      for (size_t w = 0; w < words_; ++w) mask[w] |= use.masks[block * words_ + w];
    }
    if (elements > 0) AddPiece(mask, elements * kElementBytes);
    size_t t = rank;
    while (t > 0 && ++cell[t - 1] + 1 == cuts_[t - 1].size()) cell[--t] = 0;
    if (t == 0) return;
  }
}

const std::vector<ParamPiece>& ParamPieces::Find(uint32_t group,
                                                 absl::Span<const PlacedSplit> ops) {
  pieces_.clear();
  piece_masks_.clear();
  std::vector<uint32_t> params;
  for (uint32_t op : graph_->groups[group]) {
    params.insert(params.end(), graph_->ops[op].params.begin(), graph_->ops[op].params.end());
  }
  std::sort(params.begin(), params.end());
  params.erase(std::unique(params.begin(), params.end()), params.end());
  for (uint32_t param : params) AddParam(param, ops);
  return pieces_;
}

}  // namespace soapstone::planner
