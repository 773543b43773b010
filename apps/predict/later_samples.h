// Samples that come after the training, read as the training data were. Called by `predict` and
// `evaluate`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/predict/trained_model.h"
#include "models/data/dataset.h"
#include "models/runtime/model_reading.h"

namespace soapstone::apps {

struct LaterSamples {
  models::Dataset data;
  bool labels = false;             // else they are 0
  std::vector<std::string> names;  // of files; else none
  std::vector<std::string> notes;  // a line each
};

struct LaterSource {
  std::string path;
  std::string labels_path;  // idx
  bool images = false;      // a folder of images, or one, whatever the training data were
  double scale = 0;         // of images; 0: as in training, if that was of images, else 255
};

// REQUIRES: a model of tensors. Errors: those of the readers, InvalidArgument where they do not fit
// the model.
absl::StatusOr<LaterSamples> LoadLaterSamples(const TrainedModel& model,
                                              const models::ModelReading& reading,
                                              const LaterSource& source);

}  // namespace soapstone::apps
