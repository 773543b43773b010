// Values for a graph's parameters from a file, by name. Called where a job is made.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/graph/graph.h"

namespace soapstone::models {

// path: safetensors, of F32, F16 or BF16. Tensors `num_batches_tracked`, which PyTorch counts
// beside batch normalisation, are passed over. Errors, each one line that begins with the file's
// name: those of ReadSafetensorsHeader; InvalidArgument where a parameter has no tensor, a tensor
// no parameter (the first few, and how many), or their shapes differ (both). Returns: by ParamId,
// [elements] f32.
absl::StatusOr<std::vector<std::vector<float>>> LoadWeights(const std::string& path,
                                                            const Graph& graph);

}  // namespace soapstone::models
