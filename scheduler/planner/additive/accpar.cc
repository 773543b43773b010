#include "scheduler/planner/additive/accpar.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "scheduler/planner/additive/joint_choice.h"
#include "scheduler/planner/additive/tofu.h"
#include "scheduler/planner/search/proportional_split.h"

namespace soapstone::planner {
namespace {

constexpr int kTurnsMax = 10;  // of types and ratios
constexpr double kHalvesFloatBytes = 4;

// Two halves of the devices of an earlier half.
struct Halves {
  std::vector<uint32_t> first, second;
  std::vector<bool> second_side;  // [earlier level]: on which side of it these devices are
  std::vector<double> shares;     // [earlier level]: the ratio of that side
  double bytes_per_ns = 1;
  double latency_ns = 0;
};

// The narrowest link and the sum of latencies between two devices, the worse of both directions.
void SetConnection(const Machine& machine, Halves* halves) {
  const uint32_t a = halves->first[0];
  const uint32_t b = halves->second[0];
  halves->bytes_per_ns = 1e18;
  halves->latency_ns = 0;
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    double latency = 0;
    for (uint32_t link : machine.Path(from, to)) {
      const Link& l = machine.links()[link];
      halves->bytes_per_ns = std::min(halves->bytes_per_ns, l.bytes_per_second * 1e-9);
      latency += static_cast<double>(l.latency_ns + l.message_ns);
    }
    halves->latency_ns = std::max(halves->latency_ns, latency);
  }
}

// What the level's choices cost. Earlier levels have made blocks of operators and tensors smaller.
class AccParLevel {
 public:
  AccParLevel(const OpGraph& graph, const Machine& machine,
              const std::vector<std::vector<double>>& whole_ns,
              const std::vector<std::vector<int>>& before, std::vector<Halves> halves)
      : graph_(graph),
        machine_(machine),
        whole_ns_(whole_ns),
        before_(before),
        halves_(std::move(halves)) {
    for (uint32_t group = 0; group < graph.groups.size(); ++group) {
      options_.push_back(OptionsOf(group));
    }
  }

  JointChoice::Result ChooseTypes(const std::vector<double>& ratios, size_t table_max) const {
    std::vector<uint32_t> counts;
    for (const auto& options : options_) counts.push_back(static_cast<uint32_t>(options.size()));
    JointChoice problem(std::move(counts));
    for (uint32_t group = 0; group < options_.size(); ++group) {
      for (uint32_t x = 0; x < options_[group].size(); ++x) {
        for (size_t q = 0; q < halves_.size(); ++q) {
          problem.Add(group, x, Sum(GroupComm(group, options_[group][x], q), ratios[q]));
        }
      }
    }
    std::map<std::pair<uint32_t, uint32_t>, std::vector<std::vector<double>>> between;
    for (const PlanEdge& edge : graph_.edges) {
      const uint32_t a = graph_.ops[edge.from].group;
      const uint32_t b = graph_.ops[edge.to].group;
      if (a == b) continue;  // of one type: in GroupComm
      auto& costs = between[{a, b}];
      costs.resize(options_[a].size(), std::vector<double>(options_[b].size(), 0));
      for (size_t x = 0; x < options_[a].size(); ++x) {
        for (size_t y = 0; y < options_[b].size(); ++y) {
          for (size_t q = 0; q < halves_.size(); ++q) {
            costs[x][y] += Sum(EdgeComm(edge, options_[a][x], options_[b][y], q), ratios[q]);
          }
        }
      }
    }
    for (const auto& [pair, costs] : between) problem.AddPair(pair.first, pair.second, costs);
    return problem.Solve(table_max);
  }

  std::vector<int> DimsOf(const std::vector<uint32_t>& choices) const {
    std::vector<int> dims;
    for (uint32_t group = 0; group < choices.size(); ++group) {
      dims.push_back(options_[group][choices[group]]);
    }
    return dims;
  }

  // Of halves q, when groups are cut along `dims`.
  struct Times {
    double first = 0, second = 0;  // if either did all that is cut
    double alone = 0;              // of what is not cut
    HalvesComm comm;
    double Slower(double alpha) const {
      const double beta = 1 - alpha;
      const double common = comm.fixed + alpha * beta * comm.crossed;
      return std::max(alone + alpha * first + common + beta * comm.far,
                      beta * second + common + alpha * comm.far);
    }
  };
  Times TimesOf(const std::vector<int>& dims, size_t q) const {
    Times times;
    for (uint32_t op = 0; op < graph_.ops.size(); ++op) {
      const uint32_t group = graph_.ops[op].group;
      const double share = ShareOf(group, q);
      if (dims[group] == kNotCut) {
        times.alone += share * GroupTime(op, halves_[q].first);
      } else {
        times.first += share * GroupTime(op, halves_[q].first);
        times.second += share * GroupTime(op, halves_[q].second);
      }
    }
    for (uint32_t group = 0; group < graph_.groups.size(); ++group) {
      times.comm += GroupComm(group, dims[group], q);
    }
    for (const PlanEdge& edge : graph_.edges) {
      const uint32_t a = graph_.ops[edge.from].group;
      const uint32_t b = graph_.ops[edge.to].group;
      if (a != b) times.comm += EdgeComm(edge, dims[a], dims[b], q);
    }
    return times;
  }

 private:
  static double Sum(const HalvesComm& comm, double alpha) {
    return 2 * comm.fixed + 2 * alpha * (1 - alpha) * comm.crossed + comm.far;
  }

  std::vector<int> OptionsOf(uint32_t group) const {
    const std::vector<uint32_t>& members = graph_.groups[group];
    const bool parameters = !graph_.ops[members[0]].params.empty();
    std::vector<int> options;
    for (size_t d = 0; d < graph_.ops[members[0]].rule.dims.size(); ++d) {
      const auto dim = static_cast<int>(d);
      const uint32_t degree = 2u << std::count(before_[group].begin(), before_[group].end(), dim);
      const bool all = std::all_of(members.begin(), members.end(), [&](uint32_t op) {
        const models::IterationDim& its = graph_.ops[op].rule.dims[d];
        return degree <= DegreeMax(its) && !(parameters && its.kind == models::DimKind::kAttribute);
      });
      if (all) options.push_back(dim);
    }
    if (options.empty()) options.push_back(kNotCut);
    return options;
  }

  // Of dimension d of an operator, or of all of it, that the devices of halves q have.
  double ShareAlong(uint32_t group, int d, size_t q) const {
    double share = 1;
    for (size_t level = 0; level < before_[group].size(); ++level) {
      if (before_[group][level] == d) share *= halves_[q].shares[level];
    }
    return share;
  }
  double ShareOf(uint32_t group, size_t q) const {
    double share = 1;
    for (size_t level = 0; level < before_[group].size(); ++level) {
      if (before_[group][level] != kNotCut) {
        share *= halves_[q].shares[level];
      } else if (halves_[q].second_side[level]) {
        return 0;
      }
    }
    return share;
  }

  double GroupTime(uint32_t op, const std::vector<uint32_t>& devices) const {
    double rate = 0;
    for (uint32_t device : devices) rate += 1 / whole_ns_[machine_.devices()[device].kind][op];
    return 1 / rate;
  }

  // ns to send the part of a tensor that halves q have, whole.
  double SendTime(uint32_t group, const models::TensorUse& use, double elements, size_t q) const {
    for (const models::DimUse& axis : use) {
      if (axis.dim >= 0) elements *= ShareAlong(group, axis.dim, q);
    }
    return elements * kHalvesFloatBytes / halves_[q].bytes_per_ns;
  }

  // The axis of a tensor that lies along dimension d.
  static int AxisOf(const models::TensorUse& use, int d) {
    for (size_t i = 0; i < use.size(); ++i) {
      if (use[i].dim == d) return static_cast<int>(i);
    }
    return kAllOfIt;
  }

  // Between operators cut along `from` and `to`.
  HalvesComm EdgeComm(const PlanEdge& edge, int from, int to, size_t q) const {
    const PlanOp& producer = graph_.ops[edge.from];
    const PlanOp& consumer = graph_.ops[edge.to];
    const models::TensorUse& use = consumer.rule.inputs[edge.input];
    const double elements =
        std::min(static_cast<double>(producer.shapes.outputs[edge.output].elements()),
                 static_cast<double>(consumer.shapes.inputs[edge.input].elements()));
    const double send = SendTime(consumer.group, use, elements, q);
    if (from == kNotCut || to == kNotCut) {
      if (from == to) return {};
      return {.fixed = (edge.gradient ? 2 : 1) * (send + halves_[q].latency_ns)};
    }
    const int had = AxisOf(producer.rule.outputs[edge.output], from);
    const int needed = AxisOf(use, to);
    const double latency = halves_[q].latency_ns;
    HalvesComm comm = ConversionOf(had, needed, send, latency);
    if (edge.gradient) comm += ConversionOf(needed, had, send, latency);
    return comm;
  }

  // Within a group that is cut along dimension d: sums, its own edges, what parts exchange.
  HalvesComm GroupComm(uint32_t group, int d, size_t q) const {
    HalvesComm comm;
    if (d == kNotCut || ShareOf(group, q) == 0) return comm;
    const PlanOp& first = graph_.ops[graph_.groups[group][0]];
    for (size_t p = 0; p < first.params.size(); ++p) {
      const PlanParam& param = graph_.params[first.params[p]];
      if (graph_.ops[param.ops.front()].group != group) continue;
      if (AxisOf(first.rule.params[p], d) != kAllOfIt) continue;
      double elements = 1;
      for (int64_t side : param.shape) elements *= static_cast<double>(side);
      comm.fixed += SendTime(group, first.rule.params[p], elements, q) + halves_[q].latency_ns;
    }
    for (uint32_t op : graph_.groups[group]) comm += OpComm(graph_.ops[op], d, q);
    return comm;
  }

  HalvesComm OpComm(const PlanOp& op, int d, size_t q) const {
    HalvesComm comm;
    std::vector<bool> summed(op.rule.outputs.size(), false);
    for (uint32_t e : op.out) {
      const PlanEdge& edge = graph_.edges[e];
      if (graph_.ops[edge.to].group == op.group) comm += EdgeComm(edge, d, d, q);
      const models::TensorUse& use = op.rule.outputs[edge.output];
      if (summed[edge.output] || AxisOf(use, d) != kAllOfIt) continue;
      summed[edge.output] = true;  // partial sums of F
      comm.fixed += halves_[q].latency_ns +
                    SendTime(op.group, use,
                             static_cast<double>(op.shapes.outputs[edge.output].elements()), q);
    }
    for (uint32_t e : op.in) {
      const PlanEdge& edge = graph_.edges[e];
      const models::TensorUse& use = op.rule.inputs[edge.input];
      if (!edge.gradient || AxisOf(use, d) != kAllOfIt) continue;  // else partial sums of E
      comm.fixed +=
          halves_[q].latency_ns +
          SendTime(op.group, use, static_cast<double>(op.shapes.inputs[edge.input].elements()), q);
    }
    const auto kind = op.rule.dims[static_cast<size_t>(d)].kind;
    if (op.rule.exchanges > 0 && kind == models::DimKind::kParameter) {
      // Every step's units to the other half, forward and backward.
      const auto steps = static_cast<double>(op.rule.exchanges);
      const auto elements = static_cast<double>(op.shapes.outputs[0].elements());
      comm.far += 2 * steps / (steps + 1) * SendTime(op.group, op.rule.outputs[0], elements, q);
      comm.fixed += 2 * steps * halves_[q].latency_ns;
    }
    return comm;
  }

  const OpGraph& graph_;
  const Machine& machine_;
  const std::vector<std::vector<double>>& whole_ns_;  // [kind][op], forward and backward
  const std::vector<std::vector<int>>& before_;       // [group][level]
  const std::vector<Halves> halves_;
  std::vector<std::vector<int>> options_;  // [group]: dimensions
};

std::vector<std::vector<double>> WholeTimes(const OpGraph& graph, const Machine& machine,
                                            const CostModel& costs) {
  std::vector<std::vector<double>> times(machine.kinds().size());
  for (uint32_t kind = 0; kind < times.size(); ++kind) {
    for (const PlanOp& op : graph.ops) {
      models::Block whole;
      for (const models::IterationDim& dim : op.rule.dims) whole.push_back({0, dim.extent});
      const PartCost cost = costs.CostOf(op, whole, kind);
      times[kind].push_back(std::max(1.0, static_cast<double>(cost.forward_ns + cost.backward_ns)));
    }
  }
  return times;
}

struct LevelChoice {
  std::vector<int> dims;       // [group]
  std::vector<double> ratios;  // [pair of halves]
  double slowest_ns = 0;
  bool exact = true;
};

double SlowestOf(const AccParLevel& level, const LevelChoice& choice) {
  double slowest = 0;
  for (size_t q = 0; q < choice.ratios.size(); ++q) {
    slowest = std::max(slowest, level.TimesOf(choice.dims, q).Slower(choice.ratios[q]));
  }
  return slowest;
}

// Types and ratios in turn.
LevelChoice ChooseLevel(const AccParLevel& level, size_t pairs, size_t groups,
                        const AccParOptions& options) {
  LevelChoice best;
  LevelChoice now;
  now.ratios.assign(pairs, 0.5);
  if (!options.equal) {
    // As if nothing were sent.
    const std::vector<int> any(groups, 0);
    for (size_t q = 0; q < pairs; ++q) {
      const AccParLevel::Times times = level.TimesOf(any, q);
      now.ratios[q] = BalancedRatio(times.first, times.second, 0, 0, options.ratio_min);
    }
  }
  for (int turn = 0; turn < kTurnsMax; ++turn) {
    const JointChoice::Result types = level.ChooseTypes(now.ratios, options.table_max);
    std::vector<int> dims = level.DimsOf(types.choices);
    const bool same = dims == now.dims;
    now.dims = std::move(dims);
    now.exact = types.exact;
    for (size_t q = 0; q < pairs && !options.equal; ++q) {
      const AccParLevel::Times times = level.TimesOf(now.dims, q);
      now.ratios[q] =
          BalancedRatio(times.first, times.second, times.alone, times.comm.far, options.ratio_min);
    }
    now.slowest_ns = SlowestOf(level, now);
    if (turn == 0 || now.slowest_ns < best.slowest_ns) best = now;
    if (same) break;
  }
  return best;
}

// The halves of every half of the level before.
std::vector<Halves> HalveAll(const Machine& machine, const AccParPlan& plan) {
  const size_t level = plan.ratios.size();
  const size_t pairs = size_t{1} << level;
  const size_t side = plan.devices.size() / pairs / 2;
  std::vector<Halves> all;
  for (size_t q = 0; q < pairs; ++q) {
    Halves halves;
    const auto begin = plan.devices.begin() + static_cast<std::ptrdiff_t>(2 * q * side);
    const auto middle = begin + static_cast<std::ptrdiff_t>(side);
    halves.first.assign(begin, middle);
    halves.second.assign(middle, middle + static_cast<std::ptrdiff_t>(side));
    for (size_t k = 0; k < level; ++k) {
      const bool second = (q >> (level - 1 - k)) % 2 == 1;
      const double ratio = plan.ratios[k][q >> (level - k)];
      halves.second_side.push_back(second);
      halves.shares.push_back(second ? 1 - ratio : ratio);
    }
    SetConnection(machine, &halves);
    all.push_back(std::move(halves));
  }
  return all;
}

// Of each device, were all levels cut: the product of the ratios on the way to it.
std::vector<double> LeafShares(const AccParPlan& plan, size_t machine_devices) {
  std::vector<double> shares(machine_devices, 0);
  const size_t levels = plan.ratios.size();
  for (size_t leaf = 0; leaf < plan.devices.size(); ++leaf) {
    double share = 1;
    for (size_t k = 0; k < levels; ++k) {
      const double ratio = plan.ratios[k][leaf >> (levels - k)];
      share *= (leaf >> (levels - 1 - k)) % 2 == 1 ? 1 - ratio : ratio;
    }
    shares[plan.devices[leaf]] = share;
  }
  return shares;
}

}  // namespace

HalvesComm ConversionOf(int had, int needed, double send_ns, double latency_ns) {
  HalvesComm comm;
  if (had == needed || had == kAllOfIt) return comm;
  (needed == kAllOfIt ? comm.far : comm.crossed) = send_ns;
  comm.fixed = latency_ns;
  return comm;
}

double BalancedRatio(double first_ns, double second_ns, double alone_ns, double far_ns,
                     double least) {
  const auto slower = [&](double alpha) {
    const double beta = 1 - alpha;
    return std::max(alone_ns + alpha * first_ns + beta * far_ns, beta * second_ns + alpha * far_ns);
  };
  double best = 0.5;
  const double slope = first_ns + second_ns - 2 * far_ns;
  if (slope != 0) {
    const double equal = (second_ns - far_ns - alone_ns) / slope;
    best = std::clamp(equal, least, 1 - least);
  }
  for (double end : {least, 1 - least}) {
    if (slower(end) < slower(best)) best = end;
  }
  return best;
}

AccParPlan PlanByAccPar(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                        const AccParOptions& options) {
  AccParPlan plan = {.devices = DevicesToHalve(machine)};
  plan.dims.resize(graph.groups.size());
  const std::vector<std::vector<double>> whole_ns = WholeTimes(graph, machine, costs);
  for (size_t halves = 2; halves <= plan.devices.size(); halves *= 2) {
    if (options.stop && options.stop()) {
      plan.complete = plan.exact = false;
      plan.strategy = DataParallel(graph, static_cast<uint32_t>(machine.devices().size()));
      return plan;
    }
    const AccParLevel level(graph, machine, whole_ns, plan.dims, HalveAll(machine, plan));
    const LevelChoice choice = ChooseLevel(level, halves / 2, graph.groups.size(), options);
    plan.exact = plan.exact && choice.exact;
    plan.ratios.push_back(choice.ratios);
    for (size_t group = 0; group < plan.dims.size(); ++group) {
      plan.dims[group].push_back(choice.dims[group]);
    }
  }
  const std::vector<double> shares = LeafShares(plan, machine.devices().size());
  for (const PlanOp& op : graph.ops) {
    OpConfig config = HalvedConfig(op, plan.dims[op.group], plan.devices);
    CutInProportion(op, shares, &config);
    plan.strategy.ops.push_back(std::move(config));
  }
  return plan;
}

}  // namespace soapstone::planner
