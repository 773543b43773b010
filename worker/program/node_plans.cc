// Which sums of micro-batches a worker pushes.
#include "base/leaf_tree.h"
#include "worker/program/program.h"

namespace soapstone::worker {

std::vector<NodePlan> PlanTreeNodes(MicroBatchRange own, const std::vector<uint32_t>& taken_over,
                                    uint32_t micro_batch_count, Merge merge) {
  std::vector<NodePlan> plans;
  const auto add = [&](MicroBatchRange micro_batches, bool merged) {
    std::vector<MicroBatchRange> nodes;
    if (merged) nodes = CanonicalNodes(micro_batches, micro_batch_count);
    for (uint32_t micro_batch = micro_batches.begin; !merged && micro_batch < micro_batches.end;
         ++micro_batch) {
      nodes.push_back({micro_batch, micro_batch + 1});
    }
    for (const MicroBatchRange node : nodes) {
      NodePlan plan = {node, {}};
      for (uint32_t micro_batch = node.begin; micro_batch < node.end; ++micro_batch) {
        plan.parts.push_back({micro_batch, micro_batch + 1});
      }
      plans.push_back(std::move(plan));
    }
  };
  if (!own.empty()) add(own, merge != Merge::kNone);
  for (size_t i = 0; i < taken_over.size();) {
    MicroBatchRange run = {taken_over[i], taken_over[i]};  // of neighbours
    while (i < taken_over.size() && taken_over[i] == run.end) {
      ++run.end;
      ++i;
    }
    add(run, merge == Merge::kAll);
  }
  return plans;
}

std::vector<NodePlan> PlanSingleNode(MicroBatchRange own, const std::vector<uint32_t>& taken_over) {
  NodePlan plan;
  if (!own.empty()) plan.parts.push_back(own);
  for (uint32_t micro_batch : taken_over) plan.parts.push_back({micro_batch, micro_batch + 1});
  if (plan.parts.empty()) return {};
  plan.node = plan.parts.front();
  return {plan};
}

}  // namespace soapstone::worker
