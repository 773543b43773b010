#include "scheduler/planner/search/stage_shift.h"

#include <algorithm>
#include <utility>

namespace soapstone::planner {

bool IsStageBoundary(const OpGraph& graph, const Simulator& now, uint32_t group) {
  return now.config(graph.groups[group][0]).devices !=
         now.config(graph.groups[group - 1][0]).devices;
}

void ShiftStage(const Space& space, const Simulator& now, const StageShift& shift,
                std::vector<Change>* changes) {
  const OpGraph& graph = space.graph();
  const auto groups = static_cast<uint32_t>(graph.groups.size());
  const uint32_t boundary = shift.boundary;
  const uint32_t begin = shift.later ? boundary : boundary - std::min(boundary, shift.groups);
  const uint32_t end = shift.later ? std::min(groups, boundary + shift.groups) : boundary;
  OpConfig like = now.config(graph.groups[shift.later ? boundary - 1 : boundary][0]);
  like.cuts.clear();
  changes->clear();
  for (uint32_t group = begin; group < end; ++group) {
    for (const uint32_t op : graph.groups[group]) {
      OpConfig config = like;
      if (!space.Holds(op, config.degrees)) {
        config.degrees.assign(graph.ops[op].rule.dims.size(), 1);
        config.degrees[0] = static_cast<uint32_t>(config.devices.size());
        if (!space.Holds(op, config.degrees)) continue;
      }
      if (!(config == now.config(op))) changes->push_back({op, std::move(config)});
    }
  }
}

}  // namespace soapstone::planner
