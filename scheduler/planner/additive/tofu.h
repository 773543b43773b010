// Splits by recursive bisection: Tofu (Wang, Huang and Li, "Supporting very large models using
// automatic dataflow graph partitioning", EuroSys 2019) and SoyBean (arXiv 1805.04170). The devices
// are halved level by level; at each, every operator is cut in two along one dimension, so that
// least is sent. Knows no times: bytes are all it minimizes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "strategy/machine.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

inline constexpr int kNotCut = -1;  // stays in the first half: nothing of it can be cut further

// How L halvings compose: the parts of an operator after it was cut along dims[0], then each half
// along dims[1], and so on. devices: 2^L of them, in the order in which they are halved: those of
// the first half first.
OpConfig HalvedConfig(const PlanOp& op, const std::vector<int>& dims,
                      const std::vector<uint32_t>& devices);

// The devices in the order in which bisections halve them: node by node, and of them as many as the
// largest power of two.
std::vector<uint32_t> DevicesToHalve(const Machine& machine);

struct TofuOptions {
  size_t table_max = size_t{1} << 16;  // JointChoice::Solve
  std::function<bool()> stop;          // asked before each level; may be empty
};

struct TofuPlan {
  std::vector<uint32_t> devices;
  std::vector<std::vector<int>> dims;  // [group][level]: into the rules of the group's operators
  std::vector<int64_t> bytes;          // [level]: sent in a step after this cut
  bool exact = true;                   // each level's choice is the least there is
  bool complete = true;                // false: stopped; the strategy is data parallelism
  Strategy strategy;
};

// At each level, the earlier ones given, the cuts d_1, d_2, .. of all parameter groups (an
// operator's chunks of time are cut alike) for which the bytes of a step are least:
//   Σ_edges 4·(1 + gradient)·Σ_{g≠h} |N_h ∩ P_g|  +  Σ_pieces 2·(k − 1)·|piece|  +  exchanges
// (communication_volume.h), over all dimensions that every operator of a group can still be cut
// along. Exact by JointChoice over the graph of groups. Tensors lie where they are made, which
// makes their cuts consistent; inputs of the model are free. Rejected: to run an operator twice to
// save bytes, which strategies cannot say. With devices that are no power of two the last ones stay
// idle.
TofuPlan PlanByTofu(const OpGraph& graph, const Machine& machine, const TofuOptions& options);

}  // namespace soapstone::planner
