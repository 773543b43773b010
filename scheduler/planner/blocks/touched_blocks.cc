#include "scheduler/planner/blocks/touched_blocks.h"

#include <algorithm>

namespace soapstone::planner {

TouchedBlocks::TouchedBlocks(const ConnectionGraph* connections)
    : connections_(connections),
      mark_(std::max({connections->ops(), connections->edges(), connections->groups()}), 0) {}

void TouchedBlocks::Collect(absl::Span<const Change> changes,
                            absl::Span<const ServerChange> servers) {
  edges_.clear();
  groups_.clear();
  ops_.clear();
  for (const Change& change : changes) {
    Add(change.op, kOp, &ops_);
    const uint32_t group = connections_->group_of(change.op);
    if (group != ConnectionGraph::kNoGroup) Add(group, kGroup, &groups_);
    for (const EdgeEnds* ends : {&connections_->in(), &connections_->out()}) {
      for (const EdgeEnd& end : ends->of(change.op)) {
        Add(end.edge, kEdge, &edges_);
        Add(end.other, kOp, &ops_);
      }
    }
  }
  for (const ServerChange& change : servers) Add(change.group, kGroup, &groups_);
  for (uint32_t id : ops_) mark_[id] = 0;
  for (uint32_t id : edges_) mark_[id] = 0;
  for (uint32_t id : groups_) mark_[id] = 0;
}

}  // namespace soapstone::planner
