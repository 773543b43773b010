// Splits in unequal parts for unlike devices: AccPar (Song et al., "AccPar: tensor partitioning for
// heterogeneous deep learning accelerators", HPCA 2020). The devices are halved level by level; at
// each, every operator is cut in two along one dimension, at a ratio for which both halves finish
// together. Minimizes AccPar's additive costs; the simulator has its own opinion of the result.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/planner/cost/cost_model.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

// Where a half has a tensor, or needs it: its share along one axis, or all of it.
inline constexpr int kAllOfIt = -1;

// What halves spend on communication, in ns of either half: `fixed` whatever the ratio (sums,
// latencies), `crossed`·α·β, and `far`·β for the half of ratio α = 1 − β.
struct HalvesComm {
  double fixed = 0, crossed = 0, far = 0;
  HalvesComm& operator+=(const HalvesComm& other) {
    fixed += other.fixed;
    crossed += other.crossed;
    far += other.far;
    return *this;
  }
};

// Of a tensor that takes send_ns as a whole. The half with ratio α lacks
//   0    of what it had along the axis that is needed, or had all of,
//   β    of what it had along an axis and needs all of,
//   αβ   of what it had along one axis and needs along another.
// The paper's table of what passes between layers, F forward and its gradient E backward, follows:
//   from\to  I            II           III      type I: by sample
//   I        0            αβ(F + E)    βF       type II: by input (reduction); F is summed up first
//   II       βE           βE           0        type III: by output; E is summed up first
//   III      αβ(F + E)    0            βF
HalvesComm ConversionOf(int had, int needed, double send_ns, double latency_ns);

// The ratio α of the first half for which the slower half is done soonest, with T the time that
// either would need for all that is cut and t₀ what the first does alone:
//   C₁(α) = t₀ + α·T₁ + fixed + αβ·crossed + β·far,  C₂(α) = β·T₂ + fixed + αβ·crossed + α·far
// Equal at α = (T₂ − far − t₀) / (T₁ + T₂ − 2·far), if that is the best within [least, 1 − least].
double BalancedRatio(double first_ns, double second_ns, double alone_ns, double far_ns,
                     double least);

struct AccParOptions {
  bool equal = false;  // ratios are 1/2, whatever the devices
  double ratio_min = 1.0 / 64;
  size_t table_max = size_t{1} << 16;  // JointChoice::Solve
  std::function<bool()> stop;          // asked before each level; may be empty
};

struct AccParPlan {
  std::vector<uint32_t> devices;            // in the order in which they are halved
  std::vector<std::vector<int>> dims;       // [group][level]: of the rules; kNotCut (tofu.h)
  std::vector<std::vector<double>> ratios;  // [level][pair of halves]: of the first
  bool exact = true;                        // each level's types are the best for its ratio
  bool complete = true;                     // false: stopped; the strategy is data parallelism
  Strategy strategy;
};

// Types: operators with parameters by sample, by a reduction, or by a parameter dimension; others
// by sample or any attribute. Level by level: types by dynamic programming over the graph of weight
// groups for given ratios (forks and joins included, exactly), ratios in closed form for given
// types, in turn until the types stay. Costs of an operator: sums of weights' gradients |W| where
// both halves hold them, of F and of E as above, over the narrowest link between the halves; an
// operator's time is that of the whole, shared out. Halves of one level have one type, their ratios
// differ; statistics of batch norms are not counted. With devices that are no power of two the last
// ones stay idle.
AccParPlan PlanByAccPar(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                        const AccParOptions& options);

}  // namespace soapstone::planner
