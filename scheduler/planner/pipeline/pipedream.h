// PipeDream's planner (Narayanan et al., SOSP 2019, section 3.1): a chain of layers cut into
// stages, each replicated over some devices, so that the slowest stage of a full pipeline is as
// fast as it can be. Exact, by dynamic programming over levels of bandwidth. Called by searchers.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/pipeline/pipeline_stages.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {

// Components of this level are connected at a bandwidth: those of the first level are devices, of
// the next levels all of the level before (a node's devices).
struct PipelineLevel {
  uint32_t components = 1;
  double bytes_per_second = 0;
  friend bool operator==(const PipelineLevel&, const PipelineLevel&) = default;
};

struct PipeDreamOptions {
  // Whether a replica synchronizes weights while it computes: the longer of the two counts, as in
  // the paper. Else both, one behind the other, as the optimizer that was published with it has it.
  bool overlap_synchronization = true;
  // Replicas share out each batch and synchronize after it, as our strategies do. Else they take
  // whole batches in turn and synchronize once all have had one, as in the paper.
  bool share_batches = false;
};

struct PipeDreamPlan {
  std::vector<PipelineStage> stages;  // in order; devices are numbered through the levels
  double slowest_s = 0;               // of a batch in the full pipeline
  // Batches that the first stage's replicas have under way each (the paper's NOAM):
  //   ⌈devices / replicas of the first stage⌉
  uint32_t in_flight = 1;
};

// With T_l the compute time of layer l, |w_l| its weights, a_l what crosses the cut behind it, and
// m_k components of level k at bandwidth B_k:
//   A⁰(i→j) = Σ T_l
//   T^k(i→j, m) = 1/m · max(A^{k−1}(i→j, m_{k−1}), 4(m − 1)/m · Σ|w_l| / B_k)     replicated
//               = max(A^{k−1}(i→j, m_{k−1}) / m, 4(m − 1)/m · Σ|w_l| / B_k)       batches shared
//   A^k(i→j, m) = min( T^k(i→j, m), A^k(i→j, m − 1),
//                      min over s, m' of max(A^k(i→s, m − m'), 2·a_s/B_k, T^k(s+1→j, m')) )
// The answer is A^K(all, m_K). Unlike in the paper a plan may leave components idle. Of equal plans
// the one on fewer components, else without a cut, else with the earliest last cut and the fewest
// replicas behind it.
// O(L³·m²) for inner levels, O(L²·m²) for the last. REQUIRES layers, levels, bandwidths over 0.
PipeDreamPlan PlanStages(absl::Span<const PipelineLayer> layers,
                         absl::Span<const PipelineLevel> levels,
                         const PipeDreamOptions& options = {});

// A machine as levels. Where each node has as many devices, of more than one: devices of a node,
// then nodes; else all devices on one level. A level's bandwidth is the least of any link on the
// paths between the first of its components.
struct MachineLevels {
  std::vector<PipelineLevel> levels;
  std::vector<uint32_t> devices;  // as plans number them → of the machine
};
MachineLevels LevelsOf(const Machine& machine);
// All devices on one level, at the least bandwidth: stages need not be whole nodes.
MachineLevels FlatLevelsOf(const Machine& machine);

// Plans of a model on a machine that differ: with replicas that take turns and that share batches,
// on the machine's levels and on the flat one. Stages name the machine's devices. Formulas do not
// know which is best (a level's replicas in a shared batch synchronize within more often than they
// say, transfers meet on links): the simulator prices their strategies.
std::vector<PipeDreamPlan> PipeDreamPlans(const OpGraph& graph, const Machine& machine,
                                          const CostModel& costs);

// The plan with as many steps under way as it has stages. Where PipeDream gives replicas whole
// batches in turn, here they share out each: a batch then passes a stage in the stage's time, and
// as many as there are stages keep all of them busy (1F1B). Parameters are up to stages − 1 steps
// old.
Strategy PipeDreamStrategy(const OpGraph& graph, const PipeDreamPlan& plan);

// The strategy of the plan, and with the synchronization, that the simulator finds to fit the
// memory best and then to have the shortest iteration.
struct PricedPipeDream {
  PipeDreamPlan plan;
  Strategy strategy;
  Nanos iteration_ns = 0;
  int64_t overflow_bytes = 0;  // over the devices' memory
};
PricedPipeDream BestPipeDream(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                              const SimulatorOptions& options = {});

}  // namespace soapstone::planner
