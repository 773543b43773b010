// ModelReading: what a trained model needs to know of its training data, so that samples that come
// later are read as those were: sizes, scale, words, names of classes. It is written into the
// model's file beside the values; knows no file and no job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/data/dataset.h"
#include "models/zoo/zoo.h"

namespace soapstone::models {

struct ModelReading {
  ModelInput input;                                    // what sizes the model
  double divisor = 1;                                  // what images and vectors were divided by
  int64_t length = 0;                                  // tokens of a sequence; 0: of none
  std::vector<std::string> class_names;                // TrainTest's
  std::vector<std::string> header;                     // likewise
  std::vector<std::vector<std::string>> vocabularies;  // likewise

  friend bool operator==(const ModelReading&, const ModelReading&) = default;
};

ModelReading ReadingOf(const TrainTest& data);

// As JSON; words and names with C's escapes for what is not ASCII.
std::string ReadingText(const ModelReading& reading);
// Error: InvalidArgument for what ReadingText has not made.
absl::StatusOr<ModelReading> ParseReading(const std::string& text);

}  // namespace soapstone::models
