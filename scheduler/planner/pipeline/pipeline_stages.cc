#include "scheduler/planner/pipeline/pipeline_stages.h"

#include <algorithm>
#include <map>
#include <utility>

#include "glog/logging.h"

namespace soapstone::planner {
namespace {

Nanos SlowestCost(const PlanOp& op, const Machine& machine, const CostModel& costs) {
  models::Block whole;
  for (const models::IterationDim& dim : op.rule.dims) whole.push_back({0, dim.extent});
  Nanos slowest = 0;
  for (uint32_t kind = 0; kind < machine.kinds().size(); ++kind) {
    const PartCost cost = costs.CostOf(op, whole, kind);
    slowest = std::max(slowest, cost.forward_ns + cost.backward_ns);
  }
  return slowest;
}

// A tensor crosses all cuts from its producer's to the last of those that read it.
void AddBoundaries(const OpGraph& graph, std::vector<PipelineLayer>* layers) {
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> last_reader;  // operator, output → layer
  for (const PlanEdge& edge : graph.edges) {
    uint32_t& last = last_reader[{edge.from, edge.output}];
    last = std::max(last, graph.ops[edge.to].group);
  }
  for (const auto& [tensor, last] : last_reader) {
    const PlanOp& producer = graph.ops[tensor.first];
    const auto bytes = static_cast<double>(producer.shapes.outputs[tensor.second].bytes());
    for (uint32_t layer = producer.group; layer < last; ++layer) {
      (*layers)[layer].boundary_bytes += bytes;
    }
  }
}

}  // namespace

std::vector<PipelineLayer> LayersOf(const OpGraph& graph, const Machine& machine,
                                    const CostModel& costs) {
  std::vector<PipelineLayer> layers(graph.groups.size());
  for (const PlanOp& op : graph.ops) {
    layers[op.group].compute_s +=
        static_cast<double>(SlowestCost(op, machine, costs)) / static_cast<double>(kSecond);
  }
  for (const PlanParam& param : graph.params) {
    if (param.ops.empty()) continue;
    const compute::TensorSpec tensor = {.shape = param.shape};
    layers[graph.ops[param.ops.front()].group].weight_bytes += static_cast<double>(tensor.bytes());
  }
  AddBoundaries(graph, &layers);
  return layers;
}

Strategy StrategyOfStages(const OpGraph& graph, absl::Span<const PipelineStage> stages,
                          uint32_t staleness) {
  std::vector<const PipelineStage*> stage_of(graph.groups.size(), nullptr);
  for (const PipelineStage& stage : stages) {
    for (uint32_t layer = stage.begin; layer < stage.end; ++layer) stage_of[layer] = &stage;
  }
  Strategy strategy = {.staleness = staleness};
  for (const PlanOp& op : graph.ops) {
    CHECK(stage_of[op.group] != nullptr) << op.name;
    const std::vector<uint32_t>& devices = stage_of[op.group]->devices;
    OpConfig config = DataParallelConfig(op, static_cast<uint32_t>(devices.size()));
    for (uint32_t& device : config.devices) device = devices[device];
    strategy.ops.push_back(std::move(config));
  }
  return strategy;
}

}  // namespace soapstone::planner
