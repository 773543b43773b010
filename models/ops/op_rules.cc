#include "models/ops/op_rules.h"

#include <variant>

#include "base/status_macros.h"
#include "models/ops/activation.h"
#include "models/ops/add.h"
#include "models/ops/add_parameter.h"
#include "models/ops/additive_attention.h"
#include "models/ops/batch_moments.h"
#include "models/ops/batch_norm.h"
#include "models/ops/concat.h"
#include "models/ops/conv2d.h"
#include "models/ops/dropout.h"
#include "models/ops/embedding.h"
#include "models/ops/layer_norm.h"
#include "models/ops/linear.h"
#include "models/ops/local_response_norm.h"
#include "models/ops/lstm.h"
#include "models/ops/multi_head_attention.h"
#include "models/ops/multiply.h"
#include "models/ops/normalize_by_moments.h"
#include "models/ops/pairwise_dot.h"
#include "models/ops/pool.h"
#include "models/ops/reduce.h"
#include "models/ops/reshape.h"
#include "models/ops/shape_checks.h"
#include "models/ops/softmax_cross_entropy.h"
#include "models/ops/split.h"
#include "models/ops/transpose.h"

namespace soapstone::models {

// Each call below takes the operator's own overload, which is a better match than the variant's.

absl::StatusOr<OpShapes> InferShapes(const compute::Operator& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  for (const compute::TensorSpec& input : inputs) {
    SOAP_RETURN_IF_ERROR(CheckElements("the input", input.shape));
  }
  SOAP_ASSIGN_OR_RETURN(OpShapes shapes,
                        std::visit([&](const auto& o) { return InferShapes(o, inputs); }, op));
  for (const compute::TensorSpec& output : shapes.outputs) {
    SOAP_RETURN_IF_ERROR(CheckElements("the output", output.shape));
  }
  for (const ParamSpec& param : shapes.params) {
    SOAP_RETURN_IF_ERROR(CheckElements(param.name, param.shape));
  }
  return shapes;
}

OpCost CostOf(const compute::Operator& op, const OpShapes& shapes) {
  return std::visit([&](const auto& o) { return CostOf(o, shapes); }, op);
}

PartitionRule PartitionOf(const compute::Operator& op, const OpShapes& shapes) {
  return std::visit([&](const auto& o) { return PartitionOf(o, shapes); }, op);
}

}  // namespace soapstone::models
