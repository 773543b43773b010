// The model zoo: known models by name, sized by their input. `main` and experiments call it with
// what the job file says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "models/graph.h"
#include "models/image_shape.h"

namespace soapstone::models {

// Names that BuildModel knows.
std::vector<std::string> ModelNames();

// softmax: one linear layer. mlp: hidden layers of 128 and 64, ReLU. lenet5 (LeCun et al. 1998, as
// built today: ReLU, max pooling): for images of 1×28×28, and a small one for 8×8.
// Errors: InvalidArgument for an unknown name, fewer than two classes, or a shape that the model
// is not made for.
absl::StatusOr<Graph> BuildModel(std::string_view name, const ImageShape& shape, int64_t classes);

}  // namespace soapstone::models
