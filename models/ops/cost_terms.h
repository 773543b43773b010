// Terms of which the operators' costs are put together. An exponential, a root, a hyperbolic
// tangent count as one FLOP each, as a division does.
#pragma once

#include <cstdint>

#include "models/ops/op_rules.h"

namespace soapstone::models {

// Products and sums that stop at the largest int64 instead of wrapping round, for absurd shapes.
int64_t Times(int64_t a, int64_t b);
template <class... Rest>
int64_t Times(int64_t a, int64_t b, Rest... rest) {
  return Times(Times(a, b), rest...);
}
int64_t Plus(int64_t a, int64_t b);

// Of all inputs, outputs, parameters.
int64_t InputBytes(const OpShapes& shapes);
int64_t OutputBytes(const OpShapes& shapes);
int64_t ParamBytes(const OpShapes& shapes);
int64_t ForwardBytes(const OpShapes& shapes);

// Output gradients and parameters are read, the gradients of f32 inputs and of parameters written;
// with the inputs and outputs that are read again.
struct BackwardReads {
  bool inputs = false, outputs = false;
};
int64_t BackwardBytes(const OpShapes& shapes, BackwardReads reads);

// Of an operator that does this many FLOPs for each of `elements`.
struct FlopsEach {
  int64_t forward = 0, backward = 0;
};
OpCost CostEach(const OpShapes& shapes, int64_t elements, FlopsEach flops, BackwardReads reads);
// Of one whose forward pass is matrix products: the gradients of either factor cost as much again.
OpCost CostOfProducts(const OpShapes& shapes, int64_t forward_flops);
// Of one that only moves elements.
OpCost CostOfMoving(const OpShapes& shapes);

}  // namespace soapstone::models
