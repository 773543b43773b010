// PredictionText: predictions as CSV or JSON. Called by `predict`; knows no model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace soapstone::apps {

struct PredictionLayout {
  bool json = false;                     // an array, an object a line; else CSV with a header
  bool files = false;                    // samples have names, else numbers from 0
  bool labels = false;                   // and labels
  int64_t top = 1;                       // classes shown, at most all
  bool probabilities = false;            // those of all classes too, in order
  std::vector<std::string> class_names;  // by class; empty: numbers
  int64_t classes = 0;                   // 0: a value in place of classes
};

// CSV: "file" or "sample", then, as there are, "label", "class", "probability", "class_2",
// "probability_2", .., "p_NAME" of each class; or "value" in place of classes. JSON: the same
// names; "top" has the classes shown where they are several, "probabilities" those of all. Numbers
// have seven digits. One thread.
class PredictionText {
 public:
  explicit PredictionText(PredictionLayout layout);

  struct Sample {
    std::string name;                            // of a file
    std::optional<std::string> label;            // REQUIRES: where the layout has labels
    absl::Span<const float> probabilities = {};  // [classes]
    double value = 0;
  };
  void Add(const Sample& sample);
  // All of it; the last call.
  std::string Finish();

  std::string NameOf(int64_t label) const;  // of a class

 private:
  void AddCsv(const Sample& sample, const std::vector<int64_t>& shown);
  void AddJson(const Sample& sample, const std::vector<int64_t>& shown);

  const PredictionLayout layout_;
  std::string text_;
  uint64_t samples_ = 0;
};

}  // namespace soapstone::apps
