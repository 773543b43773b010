#include "scheduler/planner/searchers/mesh_layout.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"
#include "scheduler/planner/simulator/strategy_evaluator.h"

namespace soapstone::planner {
namespace {

// Dimensions of operators, of which some are the same.
class DimClasses {
 public:
  explicit DimClasses(const OpGraph& graph) : graph_(graph) {
    uint32_t count = 0;
    for (const PlanOp& op : graph.ops) {
      begins_.push_back(count);
      count += static_cast<uint32_t>(op.rule.dims.size());
    }
    parent_.resize(count);
    std::iota(parent_.begin(), parent_.end(), 0);
    JoinSamples();
    for (const PlanEdge& edge : graph.edges) {
      JoinUses(edge.from, graph.ops[edge.from].rule.outputs[edge.output], edge.to,
               graph.ops[edge.to].rule.inputs[edge.input]);
    }
    JoinParams();
  }

  // The lowest of those that are the same.
  uint32_t Find(uint32_t op, size_t dim) const {
    return Root(begins_[op] + static_cast<uint32_t>(dim));
  }

 private:
  uint32_t Root(uint32_t x) const {
    while (parent_[x] != x) x = parent_[x];
    return x;
  }
  void Join(uint32_t a, uint32_t b) {
    const uint32_t x = Root(a);
    const uint32_t y = Root(b);
    parent_[std::max(x, y)] = std::min(x, y);
  }
  void JoinSamples() {
    int64_t first = -1;
    for (uint32_t op = 0; op < graph_.ops.size(); ++op) {
      for (uint32_t d = 0; d < graph_.ops[op].rule.dims.size(); ++d) {
        if (graph_.ops[op].rule.dims[d].kind != models::DimKind::kSample) continue;
        if (first < 0) first = begins_[op] + d;
        Join(static_cast<uint32_t>(first), begins_[op] + d);
      }
    }
  }
  void JoinUses(uint32_t a, const models::TensorUse& of_a, uint32_t b,
                const models::TensorUse& of_b) {
    for (size_t i = 0; i < of_a.size(); ++i) {
      if (of_a[i].dim < 0 || of_b[i].dim < 0) continue;
      Join(begins_[a] + static_cast<uint32_t>(of_a[i].dim),
           begins_[b] + static_cast<uint32_t>(of_b[i].dim));
    }
  }
  void JoinParams() {
    std::vector<std::pair<int64_t, size_t>> first(graph_.params.size(), {-1, 0});
    for (uint32_t op = 0; op < graph_.ops.size(); ++op) {
      const PlanOp& its = graph_.ops[op];
      for (size_t p = 0; p < its.params.size(); ++p) {
        auto& [other, at] = first[its.params[p]];
        if (other < 0) {
          other = op;
          at = p;
        }
        const auto of = static_cast<uint32_t>(other);
        JoinUses(of, graph_.ops[of].rule.params[at], op, its.rule.params[p]);
      }
    }
  }

  const OpGraph& graph_;
  std::vector<uint32_t> begins_;  // [op]
  std::vector<uint32_t> parent_;
};

// Elements of the parameters and outputs of an operator that lie along dimension d.
int64_t WeightAlong(const OpGraph& graph, uint32_t op, uint32_t d) {
  const PlanOp& its = graph.ops[op];
  const auto lies = [d](const models::TensorUse& use) {
    return std::any_of(use.begin(), use.end(),
                       [d](const models::DimUse& axis) { return axis.dim == static_cast<int>(d); });
  };
  int64_t weight = 0;
  for (size_t i = 0; i < its.rule.outputs.size(); ++i) {
    if (lies(its.rule.outputs[i])) {
      weight += static_cast<int64_t>(its.shapes.outputs[i].elements());
    }
  }
  for (size_t p = 0; p < its.params.size(); ++p) {
    const PlanParam& param = graph.params[its.params[p]];
    if (param.ops.front() != op || !lies(its.rule.params[p])) continue;
    int64_t elements = 1;
    for (int64_t side : param.shape) elements *= side;
    weight += elements;
  }
  return weight;
}

// Dimensions of layers that are alike have equal ones.
using DimSignature = std::tuple<std::string, models::DimKind, int64_t, int64_t>;

std::set<DimSignature> SignaturesOf(const OpGraph& graph, const NamedDim& named) {
  std::set<DimSignature> signatures;
  for (const auto& [op, d] : named.members) {
    const models::IterationDim& dim = graph.ops[op].rule.dims[d];
    signatures.insert({dim.name, dim.kind, dim.extent, dim.unit});
  }
  return signatures;
}

bool ShareAnOperator(const NamedDim& a, const NamedDim& b) {
  std::set<uint32_t> ops;
  for (const auto& [op, d] : a.members) ops.insert(op);
  return std::any_of(b.members.begin(), b.members.end(),
                     [&](const auto& member) { return ops.contains(member.first); });
}

std::vector<uint32_t> DevicesOfMesh(const Machine& machine) {
  std::vector<uint32_t> order(machine.devices().size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return machine.devices()[a].node < machine.devices()[b].node;
  });
  return order;
}

// [op][dim]: the axis along which it is split. Of an operator's dimensions of one name the first
// that can be split is.
std::vector<std::vector<int>> AxesByDim(const OpGraph& graph, const std::vector<NamedDim>& names,
                                        const MeshLayout& layout) {
  std::vector<std::vector<int>> axes;
  for (const PlanOp& op : graph.ops) axes.emplace_back(op.rule.dims.size(), kNoAxis);
  for (size_t name = 0; name < names.size(); ++name) {
    const int axis = layout.axes[name];
    if (axis == kNoAxis) continue;
    int64_t last = -1;
    for (const auto& [op, d] : names[name].members) {
      if (op == last) continue;
      if (layout.sides[static_cast<size_t>(axis)] > DegreeMax(graph.ops[op].rule.dims[d])) continue;
      axes[op][d] = axis;
      last = op;
    }
  }
  return axes;
}

// Layouts and what became of them.
class LayoutSearch {
 public:
  LayoutSearch(const OpGraph& graph, const Machine& machine, const CostModel& costs,
               const MeshLayoutOptions& options)
      : graph_(graph),
        machine_(machine),
        options_(options),
        simulator_(&graph, &machine, &costs, options.simulator) {
    plan_.names = NamedDimsOf(graph);
  }

  MeshPlan Run() {
    const auto meshes =
        MeshesOf(static_cast<uint32_t>(machine_.devices().size()), options_.axes_max);
    double all = 0;
    for (const auto& sides : meshes) {
      all += std::pow(static_cast<double>(sides.size() + 1), static_cast<double>(names()));
    }
    Try(Samples(meshes[0]));
    if (all <= static_cast<double>(options_.layouts_max)) {
      for (const auto& sides : meshes) TryAll(sides);
      plan_.complete = !stopped_;
    } else {
      for (size_t i = 0; i < meshes.size(); ++i) {
        Descend(Samples(meshes[i]), options_.layouts_max * (i + 1) / meshes.size());
      }
    }
    return std::move(plan_);
  }

 private:
  size_t names() const { return plan_.names.size(); }
  MeshLayout Samples(const std::vector<uint32_t>& sides) const {
    MeshLayout layout = {sides, std::vector<int>(names(), kNoAxis)};
    if (!layout.axes.empty()) layout.axes[0] = 0;
    return layout;
  }

  void TryAll(const std::vector<uint32_t>& sides) {
    MeshLayout layout = {sides, std::vector<int>(names(), kNoAxis)};
    const auto axes = static_cast<int>(sides.size());
    for (bool more = true; more && !stopped_;) {
      if (IsLegal(graph_, plan_.names, layout)) Try(layout);
      more = false;
      for (size_t i = 0; i < names() && !more; ++i) {
        more = ++layout.axes[i] < axes;
        if (!more) layout.axes[i] = kNoAxis;
      }
    }
  }

  // tried_max: of all layouts.
  void Descend(const MeshLayout& start, uint64_t tried_max) {
    MeshLayout now = start;
    Value value = ValueOf(now);
    for (bool improved = true; improved;) {
      improved = false;
      for (size_t i = 0; i < names(); ++i) {
        for (int axis = kNoAxis; axis < static_cast<int>(now.sides.size()); ++axis) {
          if (axis == now.axes[i]) continue;
          if (plan_.tried >= tried_max || stopped_) return;
          MeshLayout other = now;
          other.axes[i] = axis;
          TakeOffOthers(i, &other);
          const Value its = ValueOf(other);
          if (!(its < value)) continue;
          value = its;
          now = std::move(other);
          improved = true;
        }
      }
    }
  }

  // Names that an operator has on the axis of this one lose theirs.
  void TakeOffOthers(size_t name, MeshLayout* layout) const {
    const int axis = layout->axes[name];
    if (axis == kNoAxis) return;
    MeshLayout alone = {layout->sides, std::vector<int>(names(), kNoAxis)};
    alone.axes[name] = axis;
    const auto its = AxesByDim(graph_, plan_.names, alone);
    for (size_t other = 0; other < names(); ++other) {
      if (other == name || layout->axes[other] != axis) continue;
      alone.axes.assign(names(), kNoAxis);
      alone.axes[other] = axis;
      const auto others = AxesByDim(graph_, plan_.names, alone);
      for (size_t op = 0; op < its.size(); ++op) {
        const bool both = std::count(its[op].begin(), its[op].end(), axis) > 0 &&
                          std::count(others[op].begin(), others[op].end(), axis) > 0;
        if (both) layout->axes[other] = kNoAxis;
      }
    }
  }

  using Value = std::tuple<int64_t, int64_t, int64_t>;  // less is better
  Value ValueOf(const MeshLayout& layout) {
    Try(layout);
    return last_;
  }

  void Try(const MeshLayout& layout) {
    stopped_ = stopped_ || (plan_.tried > 0 && options_.stop && options_.stop());
    if (stopped_) return;
    ++plan_.tried;
    Strategy strategy = LayoutStrategy(graph_, machine_, plan_.names, layout);
    strategy.synchronization = Synchronization::kRing;
    CHECK(simulator_.SetStrategy(strategy).ok());
    const Breakdown parts = simulator_.Explain();
    const int64_t memory = *std::max_element(parts.memory_bytes.begin(), parts.memory_bytes.end());
    const int64_t overflow = simulator_.Overflow();
    const bool by_time = options_.objective == LayoutObjective::kTime;
    last_ =
        by_time ? Value{overflow, parts.step_ns, memory} : Value{memory, parts.step_ns, overflow};
    if (plan_.tried > 1 && !(last_ < best_)) return;
    best_ = last_;
    plan_.layout = layout;
    plan_.strategy = std::move(strategy);
    plan_.step_ns = parts.step_ns;
    plan_.overflow_bytes = overflow;
    plan_.memory_bytes = memory;
  }

  const OpGraph& graph_;
  const Machine& machine_;
  const MeshLayoutOptions& options_;
  Simulator simulator_;
  MeshPlan plan_;
  Value last_, best_;
  bool stopped_ = false;
};

}  // namespace

std::vector<NamedDim> NamedDimsOf(const OpGraph& graph) {
  const DimClasses classes(graph);
  std::map<uint32_t, NamedDim> by_class;
  std::map<uint32_t, bool> splittable, samples;
  for (uint32_t op = 0; op < graph.ops.size(); ++op) {
    for (uint32_t d = 0; d < graph.ops[op].rule.dims.size(); ++d) {
      const models::IterationDim& dim = graph.ops[op].rule.dims[d];
      const uint32_t id = classes.Find(op, d);
      NamedDim& named = by_class[id];
      if (named.members.empty()) named.name = absl::StrCat(graph.ops[op].name, ".", dim.name);
      named.weight += WeightAlong(graph, op, d);
      named.members.emplace_back(op, d);
      splittable[id] = splittable[id] || DegreeMax(dim) > 1;
      samples[id] = samples[id] || dim.kind == models::DimKind::kSample;
    }
  }
  std::vector<std::pair<bool, NamedDim>> found;
  std::vector<std::set<DimSignature>> signatures;
  for (auto& [id, named] : by_class) {
    if (!splittable[id]) continue;
    if (samples[id]) named.name = std::string(1, 'n');
    const std::set<DimSignature> its = SignaturesOf(graph, named);
    size_t like = 0;
    while (like < found.size() &&
           (signatures[like] != its || ShareAnOperator(found[like].second, named))) {
      ++like;
    }
    if (like == found.size()) {
      found.emplace_back(samples[id], std::move(named));
      signatures.push_back(its);
      continue;
    }
    NamedDim& other = found[like].second;
    other.weight += named.weight;
    other.members.insert(other.members.end(), named.members.begin(), named.members.end());
    std::sort(other.members.begin(), other.members.end());
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first : a.second.weight > b.second.weight;
  });
  std::vector<NamedDim> names;
  for (auto& [of_samples, named] : found) names.push_back(std::move(named));
  return names;
}

bool IsLegal(const OpGraph& graph, const std::vector<NamedDim>& names, const MeshLayout& layout) {
  for (const std::vector<int>& axes : AxesByDim(graph, names, layout)) {
    for (size_t a = 0; a < axes.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        if (axes[a] != kNoAxis && axes[a] == axes[b]) return false;
      }
    }
  }
  return true;
}

Strategy LayoutStrategy(const OpGraph& graph, const Machine& machine,
                        const std::vector<NamedDim>& names, const MeshLayout& layout) {
  const std::vector<uint32_t> devices = DevicesOfMesh(machine);
  const std::vector<std::vector<int>> axes = AxesByDim(graph, names, layout);
  std::vector<uint32_t> stride(layout.sides.size(), 1);
  for (size_t a = stride.size() - 1; a-- > 0;) stride[a] = stride[a + 1] * layout.sides[a + 1];
  Strategy strategy;
  for (size_t op = 0; op < graph.ops.size(); ++op) {
    OpConfig config;
    uint32_t parts = 1;
    for (int axis : axes[op]) {
      config.degrees.push_back(axis == kNoAxis ? 1 : layout.sides[static_cast<size_t>(axis)]);
      parts *= config.degrees.back();
    }
    for (uint32_t part = 0; part < parts; ++part) {
      uint32_t rest = part;
      uint32_t device = 0;
      for (size_t d = config.degrees.size(); d-- > 0;) {
        if (axes[op][d] == kNoAxis) continue;
        device += rest % config.degrees[d] * stride[static_cast<size_t>(axes[op][d])];
        rest /= config.degrees[d];
      }
      config.devices.push_back(devices[device]);
    }
    strategy.ops.push_back(std::move(config));
  }
  return strategy;
}

std::vector<std::vector<uint32_t>> MeshesOf(uint32_t devices, uint32_t axes_max) {
  if (devices == 1) return {{1}};
  std::vector<std::vector<uint32_t>> all = {{devices}};
  // Each with one axis more, from those with one axis less: their last side in two.
  for (size_t begin = 0, axes = 2; axes <= axes_max; ++axes) {
    const size_t end = all.size();
    for (; begin < end; ++begin) {
      for (uint32_t side = 2; side <= all[begin].back() / 2; ++side) {
        if (all[begin].back() % side != 0) continue;
        std::vector<uint32_t> sides = all[begin];
        sides.back() = side;
        sides.push_back(all[begin].back() / side);
        all.push_back(std::move(sides));
      }
    }
  }
  return all;
}

MeshPlan PlanByMeshLayout(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                          const MeshLayoutOptions& options) {
  MeshPlan plan = LayoutSearch(graph, machine, costs, options).Run();
  StrategyEvaluator evaluator(&graph, &machine, &costs, options.simulator);
  CHECK(evaluator.PriceBest(&plan.strategy).ok());
  Simulator& simulator = evaluator.simulator();
  CHECK(simulator.SetStrategy(plan.strategy).ok());
  const Breakdown parts = simulator.Explain();
  plan.step_ns = parts.step_ns;
  plan.memory_bytes = *std::max_element(parts.memory_bytes.begin(), parts.memory_bytes.end());
  plan.overflow_bytes = simulator.Overflow();
  return plan;
}

std::string TextOf(const MeshPlan& plan) {
  std::vector<std::string> split;
  for (size_t i = 0; i < plan.names.size(); ++i) {
    if (plan.layout.axes[i] == kNoAxis) continue;
    split.push_back(absl::StrCat(plan.names[i].name, " over ", plan.layout.axes[i]));
  }
  return absl::StrCat(absl::StrJoin(plan.layout.sides, " x "), ": ", absl::StrJoin(split, ", "));
}

}  // namespace soapstone::planner
