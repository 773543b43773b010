#include "scheduler/planner/additive/communication_volume.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "models/ops/partition.h"

namespace soapstone::planner {
namespace {

using models::Block;
using models::DimKind;
using models::Range;

constexpr int64_t kCutFloatBytes = 4;

PartRegions RegionsOf(const PlanOp& op, const models::TensorUse& use,
                      const std::vector<int64_t>& shape, const OpConfig& config,
                      const std::vector<int64_t>& offset) {
  PartRegions result = {.devices = config.devices};
  for (uint32_t part = 0; part < config.devices.size(); ++part) {
    const Block part_block = PartBlock(op, config, part);
    Block region;
    for (size_t i = 0; i < use.size(); ++i) {
      Range range = {0, shape[i]};
      if (use[i].dim >= 0 && use[i].repeats == 1) {
        const Range reach = models::ReachOf(use[i], part_block[static_cast<size_t>(use[i].dim)]);
        range.begin = std::clamp<int64_t>(reach.begin, 0, shape[i]);
        range.end = std::clamp(reach.end, range.begin, shape[i]);
      }
      const int64_t by = offset.empty() ? 0 : offset[i];
      region.push_back({range.begin + by, range.end + by});
    }
    result.regions.push_back(std::move(region));
  }
  return result;
}

int64_t MeetingElements(const Block& a, const Block& b) {
  int64_t elements = 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const int64_t side = std::min(a[i].end, b[i].end) - std::max(a[i].begin, b[i].begin);
    if (side <= 0) return 0;
    elements *= side;
  }
  return elements;
}

// Whether parts along this dimension exchange while they compute: as the simulator's rings.
bool PassesAround(const PlanOp& op, size_t dim) {
  const models::IterationDim& d = op.rule.dims[dim];
  return d.exchanges_statistics || (op.rule.exchanges > 0 && d.kind == DimKind::kParameter);
}

}  // namespace

PartRegions WrittenRegions(const OpGraph& graph, uint32_t edge, const OpConfig& producer) {
  const PlanEdge& e = graph.edges[edge];
  const PlanOp& op = graph.ops[e.from];
  return RegionsOf(op, op.rule.outputs[e.output], op.shapes.outputs[e.output].shape, producer,
                   e.offset);
}

PartRegions ReadRegions(const OpGraph& graph, uint32_t edge, const OpConfig& consumer) {
  const PlanEdge& e = graph.edges[edge];
  const PlanOp& op = graph.ops[e.to];
  return RegionsOf(op, op.rule.inputs[e.input], op.shapes.inputs[e.input].shape, consumer, {});
}

int64_t EdgeBytes(const PartRegions& written, const PartRegions& read, bool gradient) {
  int64_t elements = 0;
  for (size_t g = 0; g < written.devices.size(); ++g) {
    for (size_t h = 0; h < read.devices.size(); ++h) {
      if (written.devices[g] == read.devices[h]) continue;
      elements += MeetingElements(written.regions[g], read.regions[h]);
    }
  }
  return elements * kCutFloatBytes * (gradient ? 2 : 1);
}

int64_t SyncBytes(const OpGraph& graph, uint32_t group, const std::vector<OpConfig>& configs) {
  const std::vector<uint32_t>& members = graph.groups[group];
  const auto less = [](const Range& a, const Range& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  };
  const auto block_less = [&](const Block& a, const Block& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), less);
  };
  int64_t bytes = 0;
  for (size_t p = 0; p < graph.ops[members[0]].params.size(); ++p) {
    const PlanParam& param = graph.params[graph.ops[members[0]].params[p]];
    if (graph.ops[param.ops.front()].group != group) continue;
    std::map<Block, std::set<uint32_t>, decltype(block_less)> holders(block_less);
    int64_t sections = 1;
    for (const models::DimUse& use : graph.ops[members[0]].rule.params[p]) sections *= use.repeats;
    for (size_t m = 0; m < members.size(); ++m) {
      const PlanOp& op = graph.ops[members[m]];
      for (uint32_t part = 0; part < configs[m].devices.size(); ++part) {
        const Block block =
            models::BlockOf(op.rule.params[p], param.shape, PartBlock(op, configs[m], part));
        holders[block].insert(configs[m].devices[part]);
      }
    }
    for (const auto& [block, devices] : holders) {
      int64_t elements = sections;
      for (const Range& range : block) elements *= range.size();
      bytes += 2 * static_cast<int64_t>(devices.size() - 1) * elements * kCutFloatBytes;
    }
  }
  return bytes;
}

int64_t ExchangeBytes(const PlanOp& op, const OpConfig& config) {
  int64_t ring = 1;
  int64_t channels = 1;  // beside the dimensions that exchange, all parts together
  for (size_t d = 0; d < config.degrees.size(); ++d) {
    if (PassesAround(op, d)) {
      ring *= config.degrees[d];
    } else {
      channels *= op.rule.dims[d].extent;
    }
  }
  if (ring == 1) return 0;
  if (op.rule.exchanges == 0) return 2 * 2 * (ring - 1) * 2 * channels * kCutFloatBytes;
  int64_t step = 0;  // what all parts together write in a step of time
  for (const compute::TensorSpec& output : op.shapes.outputs) {
    step += static_cast<int64_t>(output.elements());
  }
  step /= op.rule.exchanges + 1;
  return 2 * op.rule.exchanges * (ring - 1) * step * kCutFloatBytes;
}

}  // namespace soapstone::planner
