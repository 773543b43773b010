#include "scheduler/planner/additive/additive_cost.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "glog/logging.h"
#include "scheduler/planner/blocks/equivalence_classes.h"
#include "scheduler/planner/cost/no_costs.h"

namespace soapstone::planner {
namespace {

// How long the links of a machine take for what is put onto them, all at once.
class LinkLoads {
 public:
  explicit LinkLoads(const Machine* machine) : machine_(*machine) {
    busy_.assign(machine->links().size(), 0);
  }
  void Add(absl::Span<const uint32_t> path, int64_t bytes) {
    Nanos latency = 0;
    for (uint32_t link : path) {
      const Link& l = machine_.links()[link];
      const double streamed = static_cast<double>(bytes) / l.bytes_per_second * kSecond;
      if (busy_[link] == 0) touched_.push_back(link);
      busy_[link] += l.message_ns + static_cast<Nanos>(streamed) + 1;
      latency += l.latency_ns;
    }
    latency_ = std::max(latency_, latency);
  }
  // The fullest link's time and `rounds` of the longest latency; forgets all.
  Nanos Take(int64_t rounds) {
    Nanos fullest = 0;
    for (uint32_t link : touched_) {
      fullest = std::max(fullest, busy_[link]);
      busy_[link] = 0;
    }
    touched_.clear();
    return fullest + rounds * std::exchange(latency_, 0);
  }

 private:
  const Machine& machine_;
  std::vector<Nanos> busy_;
  std::vector<uint32_t> touched_;
  Nanos latency_ = 0;
};

Nanos ComputeOf(const OpSplit& split, const OpConfig& config, const Machine& machine) {
  Nanos slowest = 0;
  const std::vector<Nanos> exchange = ExchangeTimes(split, config.devices, machine);
  for (uint32_t part = 0; part < split.parts; ++part) {
    const PartCost& cost = split.costs[machine.devices()[config.devices[part]].kind][part];
    slowest = std::max(slowest, cost.forward_ns + cost.backward_ns + 2 * exchange[part]);
  }
  return slowest;
}

// Elements of each block of a split parameter, row-major.
std::vector<int64_t> BlockElements(const ParamSplit& split) {
  std::vector<int64_t> elements = {split.sections};
  for (size_t d = 0; d < split.sides.size(); ++d) {
    const std::vector<int64_t>& begins = split.begins[d];
    std::vector<int64_t> next;
    for (int64_t outer : elements) {
      for (size_t i = 0; i < begins.size(); ++i) {
        const int64_t end = i + 1 < begins.size() ? begins[i + 1] : split.sides[d];
        next.push_back(outer * (end - begins[i]));
      }
    }
    elements = std::move(next);
  }
  return elements;
}

Nanos SynchronizeOf(const OpGraph& graph, const PlanOp& op, const OpSplit& split,
                    const OpConfig& config, const Machine& machine, LinkLoads* loads) {
  double sum = 0;
  for (size_t p = 0; p < split.params.size(); ++p) {
    const ParamSplit& param = split.params[p];
    const std::vector<int64_t> elements = BlockElements(param);
    std::vector<std::vector<uint32_t>> holders(elements.size());
    std::map<uint32_t, double> held;  // bytes by device
    for (uint32_t part = 0; part < split.parts; ++part) {
      holders[param.block_of_part[part]].push_back(config.devices[part]);
    }
    int64_t rounds = 0;
    for (size_t b = 0; b < holders.size(); ++b) {
      std::vector<uint32_t>& ring = holders[b];
      std::sort(ring.begin(), ring.end());
      ring.erase(std::unique(ring.begin(), ring.end()), ring.end());
      const int64_t bytes = elements[b] * kElementBytes;
      for (uint32_t device : ring) held[device] += static_cast<double>(bytes);
      const auto n = static_cast<int64_t>(ring.size());
      if (n < 2) continue;
      rounds = std::max(rounds, 2 * (n - 1));
      for (size_t i = 0; i < ring.size(); ++i) {
        loads->Add(machine.Path(ring[i], ring[(i + 1) % ring.size()]), 2 * (n - 1) * bytes / n);
      }
    }
    double applied = 0;
    for (const auto& [device, bytes] : held) {
      const DeviceKind& kind = machine.kind_of(device);
      applied = std::max(applied, static_cast<double>(kind.launch_ns) +
                                      3 * bytes / kind.bytes_per_second * kSecond);
    }
    const auto users = static_cast<double>(graph.params[op.params[p]].ops.size());
    sum += (static_cast<double>(loads->Take(rounds)) + applied) / users;
  }
  return static_cast<Nanos>(sum);
}

Nanos TransferOf(const std::vector<Overlap>& overlaps, const OpConfig& from, const OpConfig& to,
                 bool gradient, const Machine& machine, LinkLoads* loads) {
  // A message a (producer's part, device, region); overlaps of a producer are neighbours.
  std::vector<std::tuple<uint32_t, uint32_t, uint32_t, int64_t>> messages;
  for (const Overlap& o : overlaps) {
    const uint32_t device = to.devices[o.consumer];
    if (device != from.devices[o.producer]) {
      messages.emplace_back(o.producer, device, o.region, o.bytes);
    }
  }
  std::sort(messages.begin(), messages.end());
  messages.erase(std::unique(messages.begin(), messages.end()), messages.end());
  for (const auto& [producer, device, region, bytes] : messages) {
    loads->Add(machine.Path(from.devices[producer], device), bytes);
  }
  Nanos time = loads->Take(1);
  if (!gradient) return time;
  for (const auto& [producer, device, region, bytes] : messages) {
    loads->Add(machine.Path(device, from.devices[producer]), bytes);
  }
  return time + loads->Take(1);
}

// The places in `configs` of those to keep, ascending.
std::vector<size_t> Kept(const std::vector<OpConfig>& configs, const std::vector<Nanos>& costs,
                         const OpConfig& data, size_t configs_max) {
  std::map<size_t, std::vector<size_t>> by_parts;
  for (size_t i = 0; i < configs.size(); ++i) {
    if (configs[i].devices[0] == 0) by_parts[configs[i].devices.size()].push_back(i);
  }
  std::vector<size_t> kept;
  size_t classes = by_parts.size();
  // Those with few configurations leave their share to the rest.
  for (auto& [parts, places] : by_parts) {
    const size_t share = std::max<size_t>(1, (configs_max - kept.size()) / classes--);
    std::stable_sort(places.begin(), places.end(),
                     [&](size_t a, size_t b) { return costs[a] < costs[b]; });
    const auto is_data = [&](size_t i) { return configs[i] == data; };
    std::stable_partition(places.begin(), places.end(), is_data);
    if (places.size() > share) places.resize(share);
    kept.insert(kept.end(), places.begin(), places.end());
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

class Maker {
 public:
  Maker(const Space& space, const CostModel& costs, const AdditiveOptions& options)
      : space_(space),
        graph_(space.graph()),
        machine_(space.machine()),
        costs_(costs),
        options_(options),
        classes_(FindEquivalenceClasses(space.graph())),
        loads_(&space.machine()) {
    FindFirsts();
  }

  AdditiveCost Make() {
    AdditiveCost result;
    const auto ops = static_cast<uint32_t>(graph_.ops.size());
    for (uint32_t op = 0; op < ops && !Stopped(); ++op) {
      if (first_[op] != op) {
        result.configs.push_back(result.configs[first_[op]]);
        result.problem.nodes.push_back(result.problem.nodes[first_[op]]);
        continue;
      }
      SplitTable splits(&graph_, &machine_, &costs_);
      std::vector<OpConfig> configs = space_.Configs(op);
      std::vector<Nanos> of_node;
      for (const OpConfig& config : configs) {
        if (Stopped()) break;
        const OpSplit& split = *splits.Find(op, config);
        of_node.push_back(ComputeOf(split, config, machine_) +
                          SynchronizeOf(graph_, graph_.ops[op], split, config, machine_, &loads_));
      }
      result.configs.push_back(std::move(configs));
      result.problem.nodes.push_back(std::move(of_node));
    }
    if (stopped_) return {.complete = false};
    Prune(&result);
    for (uint32_t edge = 0; edge < graph_.edges.size() && !Stopped(); ++edge) {
      AddEdge(edge, &result);
    }
    result.complete = !stopped_;
    return result;
  }

 private:
  bool Stopped() {
    stopped_ = stopped_ || (options_.stop && options_.stop());
    return stopped_;
  }

  // Chunks and repeated layers: of operators whose nodes cost alike the first.
  void FindFirsts() {
    std::map<std::pair<uint32_t, std::vector<size_t>>, uint32_t> firsts;
    for (uint32_t op = 0; op < graph_.ops.size(); ++op) {
      std::vector<size_t> users;  // of each parameter: SynchronizeOf
      for (uint32_t param : graph_.ops[op].params) users.push_back(graph_.params[param].ops.size());
      first_.push_back(
          firsts.try_emplace({classes_.of_op[op], std::move(users)}, op).first->second);
    }
  }

  size_t TableBytes(const AdditiveCost& cost, size_t configs_max) const {
    size_t bytes = 0;
    for (const PlanEdge& edge : graph_.edges) {
      bytes += sizeof(Nanos) * std::min(configs_max, cost.configs[edge.from].size()) *
               std::min(configs_max, cost.configs[edge.to].size());
    }
    return bytes;
  }

  void Prune(AdditiveCost* cost) const {
    size_t configs_max = options_.configs_max;
    while (configs_max > 8 && TableBytes(*cost, configs_max) > options_.table_bytes_max) {
      configs_max /= 2;
    }
    for (uint32_t op = 0; op < cost->configs.size(); ++op) {
      std::vector<OpConfig>& configs = cost->configs[op];
      std::vector<Nanos>& of_node = cost->problem.nodes[op];
      if (configs.size() <= configs_max) continue;
      if (first_[op] != op) {
        configs = cost->configs[first_[op]];
        of_node = cost->problem.nodes[first_[op]];
        continue;
      }
      const OpConfig data = DataParallelConfig(graph_.ops[op], space_.devices());
      std::vector<OpConfig> kept_configs;
      std::vector<Nanos> kept_costs;
      for (size_t i : Kept(configs, of_node, data, configs_max)) {
        kept_configs.push_back(std::move(configs[i]));
        kept_costs.push_back(of_node[i]);
      }
      configs = std::move(kept_configs);
      of_node = std::move(kept_costs);
    }
  }

  // Equivalent edges have one table.
  bool CopyEquivalent(uint32_t edge, const AdditiveCost& cost, std::vector<Nanos>* table) {
    const PlanEdge& e = graph_.edges[edge];
    const auto [it, is_new] =
        made_.try_emplace({classes_.of_edge[edge], first_[e.from], first_[e.to]}, edge);
    if (!is_new) {
      *table = cost.problem.edges[it->second].costs;
      return true;
    }
    for (const auto& [key, other] : made_) {
      if (other == edge) continue;
      const PlanEdge& o = graph_.edges[other];
      if (o.output != e.output || o.input != e.input || o.offset != e.offset ||
          o.gradient != e.gradient || graph_.ops[o.from].rule != graph_.ops[e.from].rule ||
          graph_.ops[o.to].rule != graph_.ops[e.to].rule ||
          graph_.ops[o.from].shapes.outputs != graph_.ops[e.from].shapes.outputs ||
          graph_.ops[o.to].shapes.inputs != graph_.ops[e.to].shapes.inputs ||
          cost.configs[o.from] != cost.configs[e.from] ||
          cost.configs[o.to] != cost.configs[e.to]) {
        continue;
      }
      *table = cost.problem.edges[other].costs;
      return true;
    }
    return false;
  }

  void AddEdge(uint32_t edge, AdditiveCost* cost) {
    const PlanEdge& e = graph_.edges[edge];
    PairwiseProblem::Edge made = {.a = e.from, .b = e.to};
    if (!CopyEquivalent(edge, *cost, &made.costs)) {
      made.costs.reserve(cost->configs[e.from].size() * cost->configs[e.to].size());
      for (const OpConfig& from : cost->configs[e.from]) {
        if (Stopped()) return;
        // Its own table of splits, so that overlaps of all pairs are not kept.
        const NoCosts none;
        SplitTable splits(&graph_, &machine_, &none);
        const OpSplit& producer = *splits.Find(e.from, from);
        for (const OpConfig& to : cost->configs[e.to]) {
          const OpSplit& consumer = *splits.Find(e.to, to);
          made.costs.push_back(TransferOf(splits.Overlaps(edge, producer, consumer), from, to,
                                          e.gradient, machine_, &loads_));
        }
      }
    }
    cost->problem.edges.push_back(std::move(made));
  }

  const Space& space_;
  const OpGraph& graph_;
  const Machine& machine_;
  const CostModel& costs_;
  const AdditiveOptions& options_;
  const EquivalenceClasses classes_;
  std::vector<uint32_t> first_;  // by operator
  // Edges whose tables were made, or copied from edges of other operators: by the edge's class and
  // the first ones of its operators.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> made_;
  LinkLoads loads_;
  bool stopped_ = false;
};

}  // namespace

AdditiveCost MakeAdditiveCost(const Space& space, const CostModel& costs,
                              const AdditiveOptions& options) {
  return Maker(space, costs, options).Make();
}

}  // namespace soapstone::planner
