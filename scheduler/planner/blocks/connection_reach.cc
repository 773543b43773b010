#include "scheduler/planner/blocks/connection_reach.h"

#include <algorithm>
#include <vector>

namespace soapstone::planner {
namespace {

using models::DimUse;
using models::Range;

// [place of the tensor's dimension, from `offset` on] whether this use reaches it.
void MarkCovered(const DimUse& use, int64_t extent, int64_t side, int64_t offset,
                 std::vector<uint8_t>* covered) {
  const int64_t section = side / use.repeats;
  for (int64_t r = 0; r < use.repeats; ++r) {
    for (int64_t i = 0; i < (use.dim < 0 ? 1 : extent); ++i) {
      const Range reach = use.dim < 0 ? Range{0, section} : models::ReachOf(use, {i, i + 1});
      const int64_t begin = std::max<int64_t>(reach.begin, 0) + r * section + offset;
      const int64_t end = std::min(reach.end, section) + r * section + offset;
      for (int64_t x = std::max<int64_t>(begin, 0);
           x < std::min<int64_t>(end, static_cast<int64_t>(covered->size())); ++x) {
        (*covered)[static_cast<size_t>(x)] = 1;
      }
    }
  }
}

// Whether each index of this use's dimension, unit by unit, reaches a covered place.
bool EachReaches(const DimUse& use, const models::PartitionRule& rule, int64_t side, int64_t offset,
                 const std::vector<uint8_t>& covered) {
  const int64_t units = use.dim < 0 ? 1
                                    : rule.dims[static_cast<size_t>(use.dim)].extent /
                                          rule.dims[static_cast<size_t>(use.dim)].unit;
  const int64_t unit = use.dim < 0 ? 1 : rule.dims[static_cast<size_t>(use.dim)].unit;
  for (int64_t i = 0; i < units; ++i) {
    const int64_t section = side / use.repeats;
    bool meets = false;
    for (int64_t r = 0; r < use.repeats && !meets; ++r) {
      const Range reach =
          use.dim < 0 ? Range{0, section} : models::ReachOf(use, {i * unit, (i + 1) * unit});
      const int64_t begin = std::max<int64_t>(reach.begin, 0) + r * section + offset;
      const int64_t end = std::min({std::min(reach.end, section) + r * section + offset,
                                    static_cast<int64_t>(covered.size())});
      for (int64_t x = std::max<int64_t>(begin, 0); x < end && !meets; ++x) {
        meets = covered[static_cast<size_t>(x)] != 0;
      }
    }
    if (!meets) return false;
  }
  return true;
}

bool DimsAreDistinct(const models::TensorUse& use) {
  for (size_t i = 0; i < use.size(); ++i) {
    for (size_t j = i + 1; j < use.size(); ++j) {
      if (use[i].dim >= 0 && use[i].dim == use[j].dim) return false;
    }
  }
  return true;
}

// Whether each index of a dimension is one place of the tensor's, and no place is left.
bool IsOneToOne(const DimUse& use, int64_t extent, int64_t side) {
  return use == DimUse{.dim = use.dim} && use.dim >= 0 && extent == side;
}

int64_t ExtentOf(const models::PartitionRule& rule, const DimUse& use) {
  return use.dim < 0 ? 1 : rule.dims[static_cast<size_t>(use.dim)].extent;
}

ConnectionReach ReachOfEdge(const OpGraph& graph, const PlanEdge& edge) {
  const PlanOp& from = graph.ops[edge.from];
  const PlanOp& to = graph.ops[edge.to];
  const auto& output = from.rule.outputs[edge.output];
  const auto& input = to.rule.inputs[edge.input];
  bool feeds_all = DimsAreDistinct(output) && DimsAreDistinct(input);
  bool reads_all = feeds_all;
  for (size_t i = 0; i < output.size(); ++i) {
    const int64_t out_side = from.shapes.outputs[edge.output].shape[i];
    const int64_t in_side = to.shapes.inputs[edge.input].shape[i];
    const int64_t offset = edge.offset.empty() ? 0 : edge.offset[i];
    if (offset == 0 && out_side == in_side &&
        IsOneToOne(output[i], ExtentOf(from.rule, output[i]), out_side) &&
        IsOneToOne(input[i], ExtentOf(to.rule, input[i]), in_side)) {
      continue;  // as samples are, of which there may be a million
    }
    // In places of the input.
    std::vector<uint8_t> written(static_cast<size_t>(in_side), 0), read = written;
    MarkCovered(output[i], ExtentOf(from.rule, output[i]), out_side, offset, &written);
    MarkCovered(input[i], ExtentOf(to.rule, input[i]), in_side, 0, &read);
    feeds_all = feeds_all && EachReaches(input[i], to.rule, in_side, 0, written);
    reads_all = reads_all && EachReaches(output[i], from.rule, out_side, offset, read);
  }
  return {feeds_all, reads_all};
}

}  // namespace

ConnectionReach FindReach(const OpGraph& graph, absl::Span<const uint32_t> edges) {
  ConnectionReach all;
  for (uint32_t id : edges) {
    const ConnectionReach reach = ReachOfEdge(graph, graph.edges[id]);
    all.feeds_all |= reach.feeds_all;
    all.reads_all |= reach.reads_all;
  }
  return all;
}

}  // namespace soapstone::planner
