#include "scheduler/planner/searchers/baselines.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

namespace soapstone::planner {
namespace {

using Devices = std::vector<uint32_t>;

Nanos WholeCost(const PlanOp& op, const CostModel& costs, uint32_t kind) {
  models::Block whole;
  for (const models::IterationDim& dim : op.rule.dims) whole.push_back({0, dim.extent});
  const PartCost cost = costs.CostOf(op, whole, kind);
  return cost.forward_ns + cost.backward_ns;
}

// [kind][group]
std::vector<std::vector<Nanos>> GroupCosts(const OpGraph& graph, const Machine& machine,
                                           const CostModel& costs) {
  std::vector<std::vector<Nanos>> all(machine.kinds().size());
  for (uint32_t kind = 0; kind < machine.kinds().size(); ++kind) {
    all[kind].assign(graph.groups.size(), 0);
    for (const PlanOp& op : graph.ops) all[kind][op.group] += WholeCost(op, costs, kind);
  }
  return all;
}

// Groups in order on devices in order: index into `devices` by group, each device as full as the
// limit lets it. The last takes what is left, over the limit if need be: then *fits is false.
std::vector<uint32_t> FillUpTo(Nanos limit, const std::vector<std::vector<Nanos>>& costs,
                               const Machine& machine, const Devices& devices, bool* fits) {
  std::vector<uint32_t> at(costs[0].size());
  uint32_t d = 0;
  Nanos load = 0;
  *fits = true;
  for (size_t g = 0; g < at.size(); ++g) {
    const auto cost = [&] { return costs[machine.devices()[devices[d]].kind][g]; };
    while (load + cost() > limit && d + 1 < devices.size()) {
      ++d;
      load = 0;
    }
    load += cost();
    *fits = *fits && load <= limit;
    at[g] = d;
  }
  return at;
}

// The contiguous assignment whose greatest load is least: the least limit that fits, by bisection.
std::vector<uint32_t> Balance(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                              const Devices& devices) {
  const std::vector<std::vector<Nanos>> by_group = GroupCosts(graph, machine, costs);
  Nanos low = 0;
  Nanos high = 1;
  for (const std::vector<Nanos>& of_kind : by_group) {
    high = std::max(high, std::accumulate(of_kind.begin(), of_kind.end(), Nanos{0}));
  }
  bool fits = false;
  while (high - low > 1) {
    const Nanos middle = low + (high - low) / 2;
    FillUpTo(middle, by_group, machine, devices, &fits);
    (fits ? high : low) = middle;
  }
  return FillUpTo(high, by_group, machine, devices, &fits);
}

// By node, those that have any.
std::vector<Devices> DevicesByNode(const Machine& machine) {
  std::map<uint32_t, Devices> by_node;
  for (uint32_t d = 0; d < machine.devices().size(); ++d) {
    by_node[machine.devices()[d].node].push_back(d);
  }
  std::vector<Devices> all;
  for (auto& [node, devices] : by_node) all.push_back(std::move(devices));
  return all;
}

OpConfig Whole(const PlanOp& op, uint32_t device) {
  return {.degrees = std::vector<uint32_t>(op.rule.dims.size(), 1), .devices = {device}};
}

// By group.
std::vector<uint32_t> LayersOf(const OpGraph& graph) {
  uint32_t last_linear = 0;
  for (const PlanOp& op : graph.ops) {
    if (std::holds_alternative<compute::Linear>(op.what)) last_linear = op.group;
  }
  std::vector<uint32_t> layers;
  uint32_t begun = 0;
  for (uint32_t g = 0; g < graph.groups.size(); ++g) {
    const PlanOp& first = graph.ops[graph.groups[g].front()];
    const bool lstm = std::holds_alternative<compute::Lstm>(first.what);
    if (lstm || g == last_linear) ++begun;
    layers.push_back(std::max(begun, 1u) - 1);
  }
  return layers;
}

Strategy LayersWithinNodes(const OpGraph& graph, const Machine& machine) {
  const std::vector<Devices> nodes = DevicesByNode(machine);
  size_t slots = nodes[0].size();
  for (const Devices& node : nodes) slots = std::min(slots, node.size());
  const std::vector<uint32_t> layers = LayersOf(graph);
  Strategy strategy;
  for (const PlanOp& op : graph.ops) {
    OpConfig config = DataParallelConfig(op, static_cast<uint32_t>(nodes.size()));
    for (size_t part = 0; part < config.devices.size(); ++part) {
      config.devices[part] = nodes[part][layers[op.group] % slots];
    }
    strategy.ops.push_back(std::move(config));
  }
  return strategy;
}

Strategy OneWeirdTrick(const OpGraph& graph, const Machine& machine) {
  const auto devices = static_cast<uint32_t>(machine.devices().size());
  Strategy strategy = DataParallel(graph, devices);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const PlanOp& op = graph.ops[i];
    if (!std::holds_alternative<compute::Linear>(op.what)) continue;
    const size_t outputs = op.rule.dims.size() - 2;  // before the inputs, which are the last
    OpConfig config = Whole(op, 0);
    config.degrees[outputs] = std::min(devices, DegreeMax(op.rule.dims[outputs]));
    config.devices.resize(config.degrees[outputs]);
    std::iota(config.devices.begin(), config.devices.end(), 0);
    strategy.ops[i] = std::move(config);
  }
  return strategy;
}

}  // namespace

Strategy ModelParallel(const OpGraph& graph, const Machine& machine, const CostModel& costs) {
  Devices all(machine.devices().size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<uint32_t> device_of = Balance(graph, machine, costs, all);
  Strategy strategy;
  for (const PlanOp& op : graph.ops) strategy.ops.push_back(Whole(op, device_of[op.group]));
  return strategy;
}

Strategy ExpertStrategy(const OpGraph& graph, const Machine& machine) {
  const bool recurrent = std::any_of(graph.ops.begin(), graph.ops.end(), [](const PlanOp& op) {
    return std::holds_alternative<compute::Lstm>(op.what);
  });
  return recurrent ? LayersWithinNodes(graph, machine) : OneWeirdTrick(graph, machine);
}

}  // namespace soapstone::planner
