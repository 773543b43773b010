// PieceRuns: where the elements of a piece of a parameter lie in the whole, run by run. Shards make
// initial values by it, and who gathers a model puts it together by it. A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/parameter.h"

namespace soapstone {

class PieceRuns {
 public:
  // Of a parameter that is no piece: it is its own whole.
  explicit PieceRuns(const ParamSpec& spec);

  struct Run {
    uint64_t at = 0;     // of its first element, in the whole
    uint64_t count = 0;  // elements that lie side by side in both
  };
  // The run from `element` of the piece on. REQUIRES: it is one.
  Run RunAt(uint64_t element) const;

 private:
  uint64_t run_ = 1;  // elements of a whole run
  uint64_t first_ = 0;
  // Of each dimension before the run's, the last first: its extent in the piece, and how far apart
  // its indexes are in the whole.
  std::vector<std::pair<uint64_t, uint64_t>> outer_;
};

// Which tensor of the model it is, or is a piece of.
inline uint32_t WholeOf(const std::vector<ParamSpec>& params, uint32_t param) {
  return params[param].piece.has_value() ? params[param].piece->param : param;
}
// The model's own parameters, ascending, of which these are pieces, or that they are.
std::vector<ParamSpec> WholeParams(const std::vector<ParamSpec>& params);

inline PieceRuns::PieceRuns(const ParamSpec& spec) {
  if (!spec.piece.has_value()) {
    run_ = spec.elements();
    return;
  }
  const std::vector<int64_t>& whole = spec.piece->shape;
  uint64_t stride = 1;
  bool side_by_side = true;  // dimensions behind are whole
  for (size_t d = whole.size(); d-- > 0;) {
    const auto extent = static_cast<uint64_t>(spec.shape[d]);
    if (side_by_side) {
      run_ *= extent;
    } else {
      outer_.emplace_back(extent, stride);
    }
    first_ += static_cast<uint64_t>(spec.piece->begin[d]) * stride;
    side_by_side = side_by_side && spec.shape[d] == whole[d];
    stride *= static_cast<uint64_t>(whole[d]);
  }
}

inline PieceRuns::Run PieceRuns::RunAt(uint64_t element) const {
  const uint64_t within = element % run_;
  uint64_t row = element / run_;
  Run run = {.at = first_ + within, .count = run_ - within};
  for (const auto& [extent, stride] : outer_) {
    run.at += row % extent * stride;
    row /= extent;
  }
  return run;
}

inline std::vector<ParamSpec> WholeParams(const std::vector<ParamSpec>& params) {
  std::map<uint32_t, ParamSpec> whole;
  for (uint32_t p = 0; p < params.size(); ++p) {
    ParamSpec spec = params[p];
    if (spec.piece.has_value()) {
      spec.name = spec.piece->name;
      spec.shape = spec.piece->shape;
      spec.piece.reset();
    }
    whole.try_emplace(WholeOf(params, p), std::move(spec));
  }
  std::vector<ParamSpec> list;
  for (auto& [param, spec] : whole) list.push_back(std::move(spec));
  return list;
}

}  // namespace soapstone
