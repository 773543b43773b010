// Which stretches of a model to compute again in the backward pass instead of keeping them, so that
// a step takes least memory. Called where a step is prepared with recomputation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compute/kernel.h"
#include "models/graph/graph.h"

namespace soapstone::models {

// StepOptions::segments of about equal bytes of activations: of 2 to 32 segments those whose memory
// plan is smallest, and of equal plans the fewest. None where no plan has less than `kept_bytes`,
// the plan of a step that keeps all. plans: by operator, of `samples`. input_gradients: as in
// StepOptions.
std::vector<uint32_t> SmallestSegments(const Graph& graph, int64_t samples,
                                       const std::vector<const compute::KernelPlan*>& plans,
                                       const std::vector<TensorId>& input_gradients,
                                       size_t kept_bytes);

}  // namespace soapstone::models
