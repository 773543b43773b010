// The window of ONNX's Conv and pooling nodes.
#pragma once

#include "absl/status/statusor.h"
#include "models/formats/onnx/importer.h"

namespace soapstone::models {

// kernel: [h, w]; the attribute kernel_shape goes before it. image: [C, H, W] of the input. Errors:
// what compute::Window cannot say: padding that differs between sides, dilations, other dimensions
// than two, positions rounded up.
absl::StatusOr<compute::Window> WindowOf(const NodeContext& c, const std::vector<int64_t>& kernel,
                                         const std::vector<int64_t>& image);

}  // namespace soapstone::models
