#include "strategy/regions.h"

#include <algorithm>

#include "glog/logging.h"

namespace soapstone::planner {
namespace {

using models::Block;

uint32_t PartsOf(const OpConfig& config) { return static_cast<uint32_t>(config.devices.size()); }

// By part: its block of the tensor, moved.
std::vector<Block> BlocksOf(const PlanOp& op, const OpConfig& config, const models::TensorUse& use,
                            const std::vector<int64_t>& shape, const std::vector<int64_t>& offset) {
  std::vector<Block> blocks;
  for (const models::DimUse& dim : use) CHECK_EQ(dim.repeats, 1) << op.name;
  for (uint32_t part = 0; part < PartsOf(config); ++part) {
    Block block = models::BlockOf(use, shape, PartBlock(op, config, part));
    for (size_t i = 0; i < offset.size(); ++i) {
      block[i].begin -= offset[i];
      block[i].end -= offset[i];
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

}  // namespace

std::vector<Meeting> MeetingsOf(const OpGraph& graph, const PlanEdge& edge, const OpConfig& from,
                                const OpConfig& to) {
  const PlanOp& producer = graph.ops[edge.from];
  const PlanOp& consumer = graph.ops[edge.to];
  const std::vector<Block> written = BlocksOf(producer, from, producer.rule.outputs[edge.output],
                                              producer.shapes.outputs[edge.output].shape, {});
  const std::vector<Block> read = BlocksOf(consumer, to, consumer.rule.inputs[edge.input],
                                           consumer.shapes.inputs[edge.input].shape, edge.offset);
  std::vector<Meeting> meetings;
  for (uint32_t p = 0; p < written.size(); ++p) {
    for (uint32_t c = 0; c < read.size(); ++c) {
      Block region;
      for (size_t i = 0; i < written[p].size(); ++i) {
        const models::Range range = {std::max(written[p][i].begin, read[c][i].begin),
                                     std::min(written[p][i].end, read[c][i].end)};
        if (range.end <= range.begin) break;
        region.push_back(range);
      }
      if (region.size() == written[p].size()) {
        meetings.push_back({.producer = p, .consumer = c, .region = std::move(region)});
      }
    }
  }
  return meetings;
}

}  // namespace soapstone::planner
