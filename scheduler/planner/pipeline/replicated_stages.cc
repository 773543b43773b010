#include "scheduler/planner/pipeline/replicated_stages.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "glog/logging.h"
#include "scheduler/planner/pipeline/gpipe.h"

namespace soapstone::planner {
namespace {

// [kind][group], of the first micro-batch's operators over `width` devices of the kind.
std::vector<std::vector<double>> TimesByKind(const OpGraph& graph, const Machine& machine,
                                             const CostModel& costs, uint32_t width) {
  std::vector<std::vector<double>> times(machine.kinds().size());
  for (std::vector<double>& of : times) of.assign(graph.groups.size(), 0);
  for (const PlanOp& op : graph.ops) {
    if (op.micro_batch > 0) break;  // it is before all others
    const OpConfig config = DataParallelConfig(op, width);
    // Of even parts none is larger than the last (strategy.h: boundaries are rounded down).
    const auto last = static_cast<uint32_t>(config.devices.size()) - 1;
    const models::Block part = PartBlock(op, config, last);
    for (uint32_t kind = 0; kind < times.size(); ++kind) {
      const PartCost cost = costs.CostOf(op, part, kind);
      times[kind][op.group] += static_cast<double>(cost.forward_ns + cost.backward_ns);
    }
  }
  return times;
}

}  // namespace

BlockPlan BalanceBlocks(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                        uint32_t blocks) {
  const auto devices = static_cast<uint32_t>(machine.devices().size());
  CHECK(blocks > 0 && devices % blocks == 0) << blocks;
  const uint32_t width = devices / blocks;
  const std::vector<std::vector<double>> by_kind = TimesByKind(graph, machine, costs, width);
  std::vector<std::vector<double>> times;
  for (uint32_t b = 0; b < blocks; ++b) {
    std::vector<double>& of = times.emplace_back(graph.groups.size(), 0.0);
    for (uint32_t d = b * width; d < (b + 1) * width; ++d) {
      const std::vector<double>& here = by_kind[machine.devices()[d].kind];
      for (size_t layer = 0; layer < of.size(); ++layer) {
        of[layer] = std::max(of[layer], here[layer]);
      }
    }
  }
  BlockPlan plan = {.stages = BalanceStages(times)};
  for (PipelineStage& stage : plan.stages) {
    const std::vector<double>& of = times[stage.devices[0]];
    plan.stage_ns = std::max(
        plan.stage_ns, std::accumulate(of.begin() + stage.begin, of.begin() + stage.end, 0.0));
    const uint32_t first = stage.devices[0] * width;
    stage.devices.resize(width);
    std::iota(stage.devices.begin(), stage.devices.end(), first);
  }
  plan.step_ns =
      static_cast<double>(graph.micro_batches + static_cast<int64_t>(plan.stages.size()) - 1) *
      plan.stage_ns;
  return plan;
}

std::vector<BlockPlan> BlockPlans(const OpGraph& graph, const Machine& machine,
                                  const CostModel& costs) {
  const auto devices = static_cast<uint32_t>(machine.devices().size());
  std::vector<BlockPlan> plans;
  for (uint32_t blocks = 2; blocks <= devices; ++blocks) {
    if (devices % blocks != 0) continue;
    BlockPlan plan = BalanceBlocks(graph, machine, costs, blocks);
    if (plan.stages.size() > 1) plans.push_back(std::move(plan));
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const BlockPlan& a, const BlockPlan& b) { return a.step_ns < b.step_ns; });
  return plans;
}

}  // namespace soapstone::planner
