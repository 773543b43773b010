// The model zoo: known models by name, sized by their input. `main` and experiments call it with
// what the job file says; zoo/ holds the models.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "models/graph/graph.h"
#include "models/readers/image_shape.h"

namespace soapstone::models {

// What the data give; what is 0 or empty is the model's own choice.
struct ModelInput {
  std::vector<int64_t> image;  // [C, H, W]
  int64_t classes = 0;         // of the labels; of a language model its vocabulary
  int64_t vocabulary = 0;      // of the first input, where that is tokens
  int64_t steps = 0;           // tokens of a sample; of a translation the target's
  int64_t source_steps = 0;
  std::vector<int64_t> categories;  // of each categorical column, where a sample has such

  friend bool operator==(const ModelInput&, const ModelInput&) = default;
};

struct ZooEntry {
  std::string name;
  std::string description;
};
// In the order of the documentation.
std::vector<ZooEntry> Zoo();
std::vector<std::string> ModelNames();
// Error: there is no model of the name before `:`; names those that may be meant, and all.
absl::Status CheckModelName(std::string_view model);

// model: "resnet50", "resnet50:tiny", "alexnet:dropout=0", "gnmt:tiny,hidden=32". Every model has a
// tiny size that trains on a processor in seconds: the same code, smaller numbers. Options:
// dropout=, layers=, hidden=, heads= where the model has them; of dlrm_hashed those of dlrm.h.
// Errors: InvalidArgument for an unknown name or option, fewer than two classes, or an input that
// the model is not made for.
absl::StatusOr<Graph> BuildModel(std::string_view model, const ModelInput& input);
// Of a classifier of images.
absl::StatusOr<Graph> BuildModel(std::string_view model, const ImageShape& shape, int64_t classes);

}  // namespace soapstone::models
