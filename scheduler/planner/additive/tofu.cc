#include "scheduler/planner/additive/tofu.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <utility>

#include "scheduler/planner/additive/communication_volume.h"
#include "scheduler/planner/additive/joint_choice.h"

namespace soapstone::planner {
namespace {

// One level of the recursion: what each group can be cut along, and what it then costs.
class TofuLevel {
 public:
  // before: [group] → dimensions of the levels so far.
  TofuLevel(const OpGraph& graph, const std::vector<std::vector<int>>& before,
            const std::vector<uint32_t>& devices)
      : graph_(graph), before_(before) {
    std::vector<uint32_t> counts;
    for (uint32_t group = 0; group < graph.groups.size(); ++group) {
      options_.push_back(OptionsOf(group));
      counts.push_back(static_cast<uint32_t>(options_.back().size()));
    }
    configs_.resize(graph.ops.size());
    for (uint32_t op = 0; op < graph.ops.size(); ++op) {
      for (int dim : options_[graph.ops[op].group]) {
        std::vector<int> dims = before[graph.ops[op].group];
        dims.push_back(dim);
        configs_[op].push_back(HalvedConfig(graph.ops[op], dims, devices));
      }
    }
    problem_ = JointChoice(std::move(counts));
    for (uint32_t group = 0; group < graph.groups.size(); ++group) AddGroup(group);
    for (uint32_t edge = 0; edge < graph.edges.size(); ++edge) AddEdge(edge);
    for (const auto& [pair, costs] : between_) problem_.AddPair(pair.first, pair.second, costs);
  }

  JointChoice::Result Solve(size_t table_max) const { return problem_.Solve(table_max); }
  int DimOf(uint32_t group, uint32_t choice) const { return options_[group][choice]; }
  const OpConfig& ConfigOf(uint32_t op, uint32_t choice) const { return configs_[op][choice]; }

 private:
  std::vector<int> OptionsOf(uint32_t group) const {
    std::vector<int> options;
    const PlanOp& first = graph_.ops[graph_.groups[group].front()];
    for (size_t d = 0; d < first.rule.dims.size(); ++d) {
      const auto dim = static_cast<int>(d);
      const auto times = std::count(before_[group].begin(), before_[group].end(), dim);
      const uint32_t degree = 2u << times;
      const bool all = std::all_of(
          graph_.groups[group].begin(), graph_.groups[group].end(),
          [&](uint32_t op) { return degree <= DegreeMax(graph_.ops[op].rule.dims[d]); });
      if (all) options.push_back(dim);
    }
    if (options.empty()) options.push_back(kNotCut);
    return options;
  }

  void AddGroup(uint32_t group) {
    for (uint32_t choice = 0; choice < options_[group].size(); ++choice) {
      std::vector<OpConfig> configs;
      int64_t bytes = 0;
      for (uint32_t op : graph_.groups[group]) {
        configs.push_back(configs_[op][choice]);
        bytes += ExchangeBytes(graph_.ops[op], configs.back());
      }
      bytes += SyncBytes(graph_, group, configs);
      problem_.Add(group, choice, static_cast<double>(bytes));
    }
  }

  void AddEdge(uint32_t edge) {
    const PlanEdge& e = graph_.edges[edge];
    const uint32_t a = graph_.ops[e.from].group;
    const uint32_t b = graph_.ops[e.to].group;
    std::vector<PartRegions> written, read;
    for (const OpConfig& config : configs_[e.from]) {
      written.push_back(WrittenRegions(graph_, edge, config));
    }
    for (const OpConfig& config : configs_[e.to]) {
      read.push_back(ReadRegions(graph_, edge, config));
    }
    if (a == b) {
      for (uint32_t x = 0; x < written.size(); ++x) {
        problem_.Add(a, x, static_cast<double>(EdgeBytes(written[x], read[x], e.gradient)));
      }
      return;
    }
    auto& costs = between_[{a, b}];
    costs.resize(written.size(), std::vector<double>(read.size(), 0));
    for (size_t x = 0; x < written.size(); ++x) {
      for (size_t y = 0; y < read.size(); ++y) {
        costs[x][y] += static_cast<double>(EdgeBytes(written[x], read[y], e.gradient));
      }
    }
  }

  const OpGraph& graph_;
  const std::vector<std::vector<int>>& before_;
  std::vector<std::vector<int>> options_;       // [group]: dimensions
  std::vector<std::vector<OpConfig>> configs_;  // [op][choice of its group]
  std::map<std::pair<uint32_t, uint32_t>, std::vector<std::vector<double>>> between_;
  JointChoice problem_{{}};
};

}  // namespace

OpConfig HalvedConfig(const PlanOp& op, const std::vector<int>& dims,
                      const std::vector<uint32_t>& devices) {
  OpConfig config;
  config.degrees.assign(op.rule.dims.size(), 1);
  for (int dim : dims) {
    if (dim != kNotCut) config.degrees[static_cast<size_t>(dim)] *= 2;
  }
  uint32_t parts = 1;
  for (uint32_t degree : config.degrees) parts *= degree;
  for (uint32_t part = 0; part < parts; ++part) {
    std::vector<uint32_t> index(config.degrees.size());
    uint32_t rest = part;
    for (size_t d = index.size(); d-- > 0;) {
      index[d] = rest % config.degrees[d];
      rest /= config.degrees[d];
    }
    // A dimension's first cut decides the highest bit of the index along it.
    std::vector<uint32_t> left = config.degrees;
    size_t device = 0;
    for (size_t level = 0; level < dims.size(); ++level) {
      device *= 2;
      if (dims[level] == kNotCut) continue;
      const auto d = static_cast<size_t>(dims[level]);
      left[d] /= 2;
      device += index[d] / left[d] % 2;
    }
    // Levels that are still to come take the first device of what is left.
    config.devices.push_back(devices[device * (devices.size() >> dims.size())]);
  }
  return config;
}

std::vector<uint32_t> DevicesToHalve(const Machine& machine) {
  std::vector<uint32_t> order(machine.devices().size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return machine.devices()[a].node < machine.devices()[b].node;
  });
  order.resize(std::bit_floor(order.size()));
  return order;
}

TofuPlan PlanByTofu(const OpGraph& graph, const Machine& machine, const TofuOptions& options) {
  TofuPlan plan = {.devices = DevicesToHalve(machine), .strategy = SingleDevice(graph, 0)};
  plan.dims.resize(graph.groups.size());
  for (OpConfig& config : plan.strategy.ops) config.devices = {plan.devices[0]};
  for (size_t halves = 2; halves <= plan.devices.size(); halves *= 2) {
    if (options.stop && options.stop()) {
      plan.complete = plan.exact = false;
      plan.strategy = DataParallel(graph, static_cast<uint32_t>(machine.devices().size()));
      return plan;
    }
    const TofuLevel level(graph, plan.dims, plan.devices);
    const JointChoice::Result result = level.Solve(options.table_max);
    plan.bytes.push_back(static_cast<int64_t>(result.cost));
    plan.exact = plan.exact && result.exact;
    for (uint32_t op = 0; op < graph.ops.size(); ++op) {
      plan.strategy.ops[op] = level.ConfigOf(op, result.choices[graph.ops[op].group]);
    }
    for (uint32_t group = 0; group < graph.groups.size(); ++group) {
      plan.dims[group].push_back(level.DimOf(group, result.choices[group]));
    }
  }
  return plan;
}

}  // namespace soapstone::planner
