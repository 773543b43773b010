// What a part of an operator has to do, whatever device does it: FLOPs, bytes, kernels. Asked by
// the cost models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/ops/op_rules.h"
#include "models/ops/partition.h"
#include "strategy/op_graph.h"

namespace soapstone::planner {

struct PartWork {
  std::string name;  // of the kind of operator: "conv2d", "lstm"
  std::string op;    // compute/op_text.h of the part as an operator; empty: no operator does it
  std::vector<std::vector<int64_t>> inputs;  // shapes of the blocks that it reads
  models::OpCost cost;
  // Kernels that wait for one another: an lstm's steps. Backward the gradients of the parameters
  // are one more.
  int64_t forward_kernels = 1, backward_kernels = 1;
};

// part: of op.rule's dimensions, none empty. The part is taken as the operator that
// models/ops/part.h makes of it. Where there is none (units of an lstm) its FLOPs are the share of
// the whole's that the part has of the iteration space, its bytes those of its blocks. An lstm
// reads its recurrent weights at every step: bytes are Σ blocks + (T − 1)·|W_hh|.
PartWork WorkOf(const PlanOp& op, const models::Block& part);

// (T − 1)·|W_hh| in bytes, either way; weights: elements of W_hh.
int64_t BytesReadAgain(int64_t steps, int64_t weights);

}  // namespace soapstone::planner
