#include "scheduler/planner/pipeline/pipedream.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "glog/logging.h"

namespace soapstone::planner {
namespace {

// Sums over layers: [i] of those before layer i.
std::vector<double> SumsBefore(absl::Span<const PipelineLayer> layers, double PipelineLayer::*of) {
  std::vector<double> sums = {0};
  for (const PipelineLayer& layer : layers) sums.push_back(sums.back() + layer.*of);
  return sums;
}

// A^k(i→j, m) of one level, for all j and m, and i of all layers or of the first.
class LevelTable {
 public:
  // How the best time is reached.
  struct Best {
    double time = std::numeric_limits<double>::infinity();
    uint32_t last = 0;   // components of the last stage; 0: as with a component less
    uint32_t begin = 0;  // of the last stage; i: it is the only one
  };

  LevelTable(absl::Span<const PipelineLayer> layers, const PipelineLevel& level,
             const LevelTable* inner, bool first_only, const PipeDreamOptions& options)
      : layers_(layers),
        level_(level),
        inner_(inner),
        options_(options),
        compute_(SumsBefore(layers, &PipelineLayer::compute_s)),
        weights_(SumsBefore(layers, &PipelineLayer::weight_bytes)),
        count_(static_cast<uint32_t>(layers.size())),
        best_((first_only ? 1 : layers.size()) * layers.size() * level.components) {
    for (uint32_t i = 0; i < (first_only ? 1 : count_); ++i) {
      for (uint32_t j = i; j < count_; ++j) {
        for (uint32_t m = 1; m <= level.components; ++m) best_[Index(i, j, m)] = Find(i, j, m);
      }
    }
  }

  // Layers i to j, both among them, on m components.
  const Best& best(uint32_t i, uint32_t j, uint32_t m) const { return best_[Index(i, j, m)]; }
  const Best& whole(uint32_t i, uint32_t j) const { return best(i, j, level_.components); }

 private:
  size_t Index(uint32_t i, uint32_t j, uint32_t m) const {
    return (size_t{i} * count_ + j) * level_.components + m - 1;
  }

  // T^k(i→j, m)
  double Replicated(uint32_t i, uint32_t j, uint32_t m) const {
    const double compute =
        inner_ == nullptr ? compute_[j + 1] - compute_[i] : inner_->whole(i, j).time;
    const double sync =
        4.0 * (m - 1) / m * (weights_[j + 1] - weights_[i]) / level_.bytes_per_second;
    const double share = options_.share_batches ? compute / m : compute;
    const double time = options_.overlap_synchronization ? std::max(share, sync) : share + sync;
    return options_.share_batches ? time : time / m;
  }

  Best Find(uint32_t i, uint32_t j, uint32_t m) const {
    Best best = {.time = Replicated(i, j, m), .last = m, .begin = i};
    if (m > 1 && this->best(i, j, m - 1).time <= best.time) {
      best = {.time = this->best(i, j, m - 1).time, .last = 0};
    }
    for (uint32_t s = i; s < j; ++s) {
      const double boundary = 2 * layers_[s].boundary_bytes / level_.bytes_per_second;
      if (boundary >= best.time) continue;
      for (uint32_t last = 1; last < m; ++last) {
        const double before = std::max(this->best(i, s, m - last).time, boundary);
        if (before >= best.time) break;  // it only grows
        const double time = std::max(before, Replicated(s + 1, j, last));
        if (time < best.time) best = {.time = time, .last = last, .begin = s + 1};
      }
    }
    return best;
  }

  const absl::Span<const PipelineLayer> layers_;
  const PipelineLevel level_;
  const LevelTable* inner_;
  const PipeDreamOptions options_;
  const std::vector<double> compute_, weights_;
  const uint32_t count_;
  std::vector<Best> best_;
};

class StageWriter {
 public:
  StageWriter(const std::vector<LevelTable>& tables, absl::Span<const PipelineLevel> levels)
      : tables_(tables) {
    for (const PipelineLevel& level : levels) {
      devices_.push_back(devices_.empty() ? 1 : devices_.back() * components_.back());
      components_.push_back(level.components);
    }
  }

  // Layers i to j on m components of the level, the first of which begins with device `first`.
  std::vector<PipelineStage> Write(size_t level, uint32_t i, uint32_t j, uint32_t m,
                                   uint32_t first) const {
    while (tables_[level].best(i, j, m).last == 0) --m;
    const LevelTable::Best& best = tables_[level].best(i, j, m);
    std::vector<PipelineStage> stages;
    if (best.begin > i) stages = Write(level, i, best.begin - 1, m - best.last, first);
    const uint32_t behind = first + (m - best.last) * devices_[level];
    std::vector<PipelineStage> last = Component(level, best.begin, j, behind);
    for (uint32_t replica = 1; replica < best.last; ++replica) {
      const std::vector<PipelineStage> more =
          Component(level, best.begin, j, behind + replica * devices_[level]);
      for (size_t k = 0; k < last.size(); ++k) {
        last[k].devices.insert(last[k].devices.end(), more[k].devices.begin(),
                               more[k].devices.end());
      }
    }
    stages.insert(stages.end(), last.begin(), last.end());
    return stages;
  }

 private:
  // On one component: as the level below has it.
  std::vector<PipelineStage> Component(size_t level, uint32_t i, uint32_t j, uint32_t first) const {
    if (level == 0) return {{.begin = i, .end = j + 1, .devices = {first}}};
    return Write(level - 1, i, j, components_[level - 1], first);
  }

  const std::vector<LevelTable>& tables_;
  std::vector<uint32_t> components_, devices_;  // by level; devices of one component
};

// The least bandwidth of any link between two devices.
double BandwidthBetween(const Machine& machine, uint32_t a, uint32_t b) {
  double least = std::numeric_limits<double>::infinity();
  for (const uint32_t link : machine.Path(a, b)) {
    least = std::min(least, machine.links()[link].bytes_per_second);
  }
  return least;
}

double BandwidthAmong(const Machine& machine, const std::vector<uint32_t>& devices) {
  double least = std::numeric_limits<double>::infinity();
  for (const uint32_t a : devices) {
    for (const uint32_t b : devices) {
      if (a != b) least = std::min(least, BandwidthBetween(machine, a, b));
    }
  }
  // One device sends nothing; any bandwidth will do.
  return devices.size() > 1 ? least : 1;
}

}  // namespace

PipeDreamPlan PlanStages(absl::Span<const PipelineLayer> layers,
                         absl::Span<const PipelineLevel> levels, const PipeDreamOptions& options) {
  CHECK(!layers.empty() && !levels.empty());
  std::vector<LevelTable> tables;
  tables.reserve(levels.size());  // each keeps a pointer to the one before
  uint32_t devices = 1;
  for (size_t k = 0; k < levels.size(); ++k) {
    CHECK(levels[k].components > 0 && levels[k].bytes_per_second > 0);
    const LevelTable* inner = k == 0 ? nullptr : &tables[k - 1];
    tables.emplace_back(layers, levels[k], inner, k + 1 == levels.size(), options);
    devices *= levels[k].components;
  }
  const auto last = static_cast<uint32_t>(layers.size()) - 1;
  PipeDreamPlan plan = {.slowest_s = tables.back().whole(0, last).time};
  plan.stages =
      StageWriter(tables, levels).Write(levels.size() - 1, 0, last, levels.back().components, 0);
  const auto first = static_cast<uint32_t>(plan.stages.front().devices.size());
  plan.in_flight = plan.stages.size() > 1 ? (devices + first - 1) / first : 1;
  return plan;
}

MachineLevels LevelsOf(const Machine& machine) {
  std::map<uint32_t, std::vector<uint32_t>> nodes;
  for (uint32_t d = 0; d < machine.devices().size(); ++d) {
    nodes[machine.devices()[d].node].push_back(d);
  }
  const size_t of_first = nodes.begin()->second.size();
  const bool alike = std::all_of(nodes.begin(), nodes.end(),
                                 [&](const auto& node) { return node.second.size() == of_first; });
  if (!alike || of_first == 1 || nodes.size() == 1) return FlatLevelsOf(machine);
  MachineLevels result;
  double within = std::numeric_limits<double>::infinity();
  std::vector<uint32_t> firsts;
  for (const auto& [node, devices] : nodes) {
    within = std::min(within, BandwidthAmong(machine, devices));
    firsts.push_back(devices.front());
    result.devices.insert(result.devices.end(), devices.begin(), devices.end());
  }
  result.levels = {{static_cast<uint32_t>(of_first), within},
                   {static_cast<uint32_t>(nodes.size()), BandwidthAmong(machine, firsts)}};
  return result;
}

MachineLevels FlatLevelsOf(const Machine& machine) {
  MachineLevels result;
  result.devices.resize(machine.devices().size());
  std::iota(result.devices.begin(), result.devices.end(), 0);
  result.levels = {
      {static_cast<uint32_t>(result.devices.size()), BandwidthAmong(machine, result.devices)}};
  return result;
}

std::vector<PipeDreamPlan> PipeDreamPlans(const OpGraph& graph, const Machine& machine,
                                          const CostModel& costs) {
  const std::vector<PipelineLayer> layers = LayersOf(graph, machine, costs);
  std::vector<MachineLevels> ways = {LevelsOf(machine)};
  if (ways[0].levels.size() > 1) ways.push_back(FlatLevelsOf(machine));
  std::vector<PipeDreamPlan> plans;
  for (const MachineLevels& of : ways) {
    for (const bool share : {false, true}) {
      PipeDreamPlan plan = PlanStages(layers, of.levels, {.share_batches = share});
      for (PipelineStage& stage : plan.stages) {
        for (uint32_t& device : stage.devices) device = of.devices[device];
      }
      const bool is_new = std::none_of(plans.begin(), plans.end(), [&](const PipeDreamPlan& other) {
        return other.stages == plan.stages;
      });
      if (is_new) plans.push_back(std::move(plan));
    }
  }
  return plans;
}

Strategy PipeDreamStrategy(const OpGraph& graph, const PipeDreamPlan& plan) {
  return StrategyOfStages(graph, plan.stages, static_cast<uint32_t>(plan.stages.size()) - 1);
}

PricedPipeDream BestPipeDream(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                              const SimulatorOptions& options) {
  PricedPipeDream best = {.iteration_ns = kNever, .overflow_bytes = INT64_MAX};
  Simulator simulator(&graph, &machine, &costs, options);
  for (const PipeDreamPlan& plan : PipeDreamPlans(graph, machine, costs)) {
    Strategy strategy = PipeDreamStrategy(graph, plan);
    for (const Synchronization way :
         {Synchronization::kOwner, Synchronization::kRing, Synchronization::kServers}) {
      if (way == Synchronization::kServers && machine.servers().empty()) continue;
      SetSynchronization(way, &strategy);
      CHECK(simulator.SetStrategy(strategy).ok());
      const int64_t overflow = simulator.Overflow();
      const Nanos iteration = simulator.IterationTime();
      if (std::pair(overflow, iteration) >= std::pair(best.overflow_bytes, best.iteration_ns)) {
        continue;
      }
      best = {plan, strategy, iteration, overflow};
    }
  }
  return best;
}

}  // namespace soapstone::planner
