#include "scheduler/planner/search/proportional_split.h"

#include <algorithm>
#include <cmath>

#include "glog/logging.h"

namespace soapstone::planner {
namespace {

// Weights are sums and quotients of rates: what differs by less is equal.
constexpr double kEqualWeights = 1e-9;

// By index along dimension d.
std::vector<double> WeightsAlong(const OpConfig& config, size_t d,
                                 const std::vector<double>& weight_of_part) {
  size_t below = 1;  // parts between neighbours along d
  for (size_t later = d + 1; later < config.degrees.size(); ++later) below *= config.degrees[later];
  std::vector<double> weights(config.degrees[d], 0);
  for (size_t part = 0; part < weight_of_part.size(); ++part) {
    weights[part / below % config.degrees[d]] += weight_of_part[part];
  }
  return weights;
}

}  // namespace

std::vector<double> SpeedsOf(const Machine& machine) {
  std::vector<double> speeds;
  for (uint32_t d = 0; d < machine.devices().size(); ++d) {
    speeds.push_back(machine.kind_of(d).flops_per_second / machine.kind_of(0).flops_per_second);
  }
  return speeds;
}

std::vector<int64_t> CutsInProportion(const models::IterationDim& dim,
                                      absl::Span<const double> weights) {
  const int64_t units = dim.extent / dim.unit;
  const auto parts = static_cast<int64_t>(weights.size());
  CHECK_GE(units, parts) << dim.name;
  double sum = 0;
  for (double weight : weights) sum += weight;
  std::vector<int64_t> cuts;
  double before = 0;
  int64_t last = 0;
  for (int64_t j = 1; j < parts; ++j) {
    before += weights[static_cast<size_t>(j) - 1];
    const int64_t nearest = std::llround(static_cast<double>(units) * before / sum);
    last = std::clamp(nearest, last + 1, units - (parts - j));
    cuts.push_back(last * dim.unit);
  }
  return cuts;
}

void CutInProportion(const PlanOp& op, absl::Span<const double> weight_of_device,
                     OpConfig* config) {
  std::vector<double> parts_on(weight_of_device.size(), 0);
  for (uint32_t device : config->devices) ++parts_on[device];
  std::vector<double> weight_of_part;
  for (uint32_t device : config->devices) {
    weight_of_part.push_back(weight_of_device[device] / parts_on[device]);
  }
  config->cuts.assign(config->degrees.size(), {});
  for (size_t d = 0; d < config->degrees.size(); ++d) {
    if (config->degrees[d] == 1) continue;
    const std::vector<double> weights = WeightsAlong(*config, d, weight_of_part);
    const auto [low, high] = std::minmax_element(weights.begin(), weights.end());
    if (*high - *low <= kEqualWeights * *high) continue;
    config->cuts[d] = CutsInProportion(op.rule.dims[d], weights);
  }
  DropEvenCuts(op, config);
}

void DropEvenCuts(const PlanOp& op, OpConfig* config) {
  bool any = false;
  for (size_t d = 0; d < config->cuts.size(); ++d) {
    std::vector<int64_t>& cuts = config->cuts[d];
    const int64_t unit = op.rule.dims[d].unit;
    const int64_t units = op.rule.dims[d].extent / unit;
    const int64_t degree = config->degrees[d];
    bool even = true;
    for (int64_t j = 1; j < degree && !cuts.empty(); ++j) {
      even = even && cuts[static_cast<size_t>(j) - 1] == j * units / degree * unit;
    }
    if (even) cuts.clear();
    any = any || !cuts.empty();
  }
  if (!any) config->cuts.clear();
}

Strategy DataParallelBySpeed(const OpGraph& graph, const Machine& machine) {
  const std::vector<double> speeds = SpeedsOf(machine);
  Strategy strategy = DataParallel(graph, static_cast<uint32_t>(machine.devices().size()));
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    CutInProportion(graph.ops[i], speeds, &strategy.ops[i]);
  }
  return strategy;
}

}  // namespace soapstone::planner
