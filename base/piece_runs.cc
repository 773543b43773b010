#include "base/piece_runs.h"

#include <cstddef>
#include <map>

namespace soapstone {

PieceRuns::PieceRuns(const ParamSpec& spec) {
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

PieceRuns::Run PieceRuns::RunAt(uint64_t element) const {
  const uint64_t within = element % run_;
  uint64_t row = element / run_;
  Run run = {.at = first_ + within, .count = run_ - within};
  for (const auto& [extent, stride] : outer_) {
    run.at += row % extent * stride;
    row /= extent;
  }
  return run;
}

std::vector<ParamSpec> WholeParams(const std::vector<ParamSpec>& params) {
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
