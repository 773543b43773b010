#include "models/ops/cost_terms.h"

#include <limits>

namespace soapstone::models {

int64_t Times(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::numeric_limits<int64_t>::max();
  return product;
}

int64_t Plus(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::numeric_limits<int64_t>::max();
  return sum;
}

int64_t InputBytes(const OpShapes& shapes) {
  int64_t bytes = 0;
  for (const compute::TensorSpec& input : shapes.inputs) bytes += input.bytes();
  return bytes;
}

int64_t OutputBytes(const OpShapes& shapes) {
  int64_t bytes = 0;
  for (const compute::TensorSpec& output : shapes.outputs) bytes += output.bytes();
  return bytes;
}

int64_t ParamBytes(const OpShapes& shapes) {
  int64_t bytes = 0;
  for (const ParamSpec& param : shapes.params) bytes += 4 * static_cast<int64_t>(param.elements());
  return bytes;
}

int64_t ForwardBytes(const OpShapes& shapes) {
  return InputBytes(shapes) + ParamBytes(shapes) + OutputBytes(shapes);
}

int64_t BackwardBytes(const OpShapes& shapes, BackwardReads reads) {
  int64_t bytes = OutputBytes(shapes) + 2 * ParamBytes(shapes);
  for (const compute::TensorSpec& input : shapes.inputs) {
    if (input.type == compute::DataType::kFloat32) bytes += input.bytes();
  }
  if (reads.inputs) bytes += InputBytes(shapes);
  if (reads.outputs) bytes += OutputBytes(shapes);
  return bytes;
}

OpCost CostEach(const OpShapes& shapes, int64_t elements, FlopsEach flops, BackwardReads reads) {
  return {.forward_flops = Times(flops.forward, elements),
          .backward_flops = Times(flops.backward, elements),
          .forward_bytes = ForwardBytes(shapes),
          .backward_bytes = BackwardBytes(shapes, reads)};
}

OpCost CostOfProducts(const OpShapes& shapes, int64_t forward_flops) {
  return {.forward_flops = forward_flops,
          .backward_flops = Times(2, forward_flops),
          .forward_bytes = ForwardBytes(shapes),
          .backward_bytes = BackwardBytes(shapes, {.inputs = true})};
}

OpCost CostOfMoving(const OpShapes& shapes) {
  const int64_t bytes = ForwardBytes(shapes);
  return {.forward_bytes = bytes, .backward_bytes = bytes};
}

}  // namespace soapstone::models
