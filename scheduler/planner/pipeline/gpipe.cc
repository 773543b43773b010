#include "scheduler/planner/pipeline/gpipe.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "glog/logging.h"

namespace soapstone::planner {
namespace {

// The operator at ⌈1/m⌉ of its samples.
models::Block MicroBatchOf(const PlanOp& op, int64_t micro_batches) {
  models::Block block;
  bool cut = false;
  for (const models::IterationDim& dim : op.rule.dims) {
    const bool samples = dim.kind == models::DimKind::kSample && !cut;
    cut |= samples;
    block.push_back({0, samples ? (dim.extent + micro_batches - 1) / micro_batches : dim.extent});
  }
  return block;
}

// [kind][group], of a micro-batch
std::vector<std::vector<double>> TimesOf(const OpGraph& graph, const Machine& machine,
                                         const CostModel& costs, int64_t micro_batches) {
  std::vector<std::vector<double>> times(machine.kinds().size());
  for (uint32_t kind = 0; kind < times.size(); ++kind) {
    times[kind].assign(graph.groups.size(), 0);
    for (const PlanOp& op : graph.ops) {
      const PartCost cost = costs.CostOf(op, MicroBatchOf(op, micro_batches), kind);
      times[kind][op.group] +=
          static_cast<double>(cost.forward_ns + cost.backward_ns) / static_cast<double>(kSecond);
    }
  }
  return times;
}

}  // namespace

std::vector<PipelineStage> BalanceStages(absl::Span<const std::vector<double>> times_s) {
  CHECK(!times_s.empty() && !times_s[0].empty());
  const size_t layers = times_s[0].size();
  // F by k, and where stage k begins; before the first device no layer can be done.
  std::vector<double> before(layers + 1, std::numeric_limits<double>::infinity());
  before[0] = 0;
  std::vector<std::vector<uint32_t>> begins;
  for (const std::vector<double>& times : times_s) {
    std::vector<double> now(layers + 1);
    std::vector<uint32_t>& begin = begins.emplace_back(layers + 1);
    for (size_t j = 0; j <= layers; ++j) {
      now[j] = before[j];
      begin[j] = static_cast<uint32_t>(j);
      double stage = 0;
      for (size_t s = j; s-- > 0;) {
        stage += times[s];
        if (stage >= now[j]) break;  // it only grows
        const double slowest = std::max(before[s], stage);
        if (slowest >= now[j]) continue;
        now[j] = slowest;
        begin[j] = static_cast<uint32_t>(s);
      }
    }
    before = now;
  }
  std::vector<PipelineStage> stages;
  auto end = static_cast<uint32_t>(layers);
  for (size_t k = times_s.size(); k-- > 0;) {
    const uint32_t begin = begins[k][end];
    if (begin < end) {
      stages.push_back({.begin = begin, .end = end, .devices = {static_cast<uint32_t>(k)}});
    }
    end = begin;
  }
  std::reverse(stages.begin(), stages.end());
  return stages;
}

GPipePlan PlanGPipe(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                    const GPipeOptions& options) {
  CHECK_EQ(graph.micro_batches, 1);
  auto devices = static_cast<uint32_t>(machine.devices().size());
  if (options.stages_max > 0) devices = std::min(devices, options.stages_max);
  GPipePlan best = {.step_s = std::numeric_limits<double>::infinity()};
  const int64_t most = std::min(options.micro_batches_max, graph.batch);
  for (int64_t m = 1; m <= std::max<int64_t>(most, 1); m *= 2) {
    const std::vector<std::vector<double>> by_kind = TimesOf(graph, machine, costs, m);
    std::vector<std::vector<double>> times;
    for (uint32_t d = 0; d < devices; ++d) times.push_back(by_kind[machine.devices()[d].kind]);
    GPipePlan plan = {.stages = BalanceStages(times), .micro_batches = m};
    for (const PipelineStage& stage : plan.stages) {
      const std::vector<double>& of = times[stage.devices[0]];
      double sum = 0;
      for (uint32_t layer = stage.begin; layer < stage.end; ++layer) sum += of[layer];
      plan.stage_s = std::max(plan.stage_s, sum);
    }
    const auto k = static_cast<double>(plan.stages.size());
    plan.step_s = (static_cast<double>(m) + k - 1) * plan.stage_s;
    if (plan.step_s < best.step_s) best = std::move(plan);
  }
  return best;
}

}  // namespace soapstone::planner
