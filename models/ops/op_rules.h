// What a graph must know of an operator: the shapes it makes, the parameters it has, what it costs
// and how it may be split. One file pair an operator (conv2d.h, ..); this header is the table that
// leads to them. Shapes here are whole, with the batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/parameter.h"
#include "compute/op.h"
#include "models/ops/partition.h"

namespace soapstone::models {

struct OpShapes {
  std::vector<compute::TensorSpec> inputs;
  std::vector<compute::TensorSpec> outputs;
  std::vector<ParamSpec>
      params;  // names are the operator's own: "weight", "bias", "weight_ih", ...
};

// Shapes of outputs and parameters (with their initial values). Error: why the inputs do not fit,
// e.g. "it takes an image [N, C, H, W], not [8, 10]"; the caller adds model and operator.
absl::StatusOr<OpShapes> InferShapes(const compute::Operator& op,
                                     absl::Span<const compute::TensorSpec> inputs);

// FLOPs count a multiply and an add as two; bytes are those of inputs, outputs and parameters read
// and written once each.
struct OpCost {
  int64_t forward_flops = 0, backward_flops = 0;
  int64_t forward_bytes = 0, backward_bytes = 0;
  friend bool operator==(const OpCost&, const OpCost&) = default;
};
OpCost CostOf(const compute::Operator& op, const OpShapes& shapes);

PartitionRule PartitionOf(const compute::Operator& op, const OpShapes& shapes);

}  // namespace soapstone::models
