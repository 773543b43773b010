// The models of the zoo, each a function from its size to a graph. Called by models/zoo/zoo.cc
// alone. Parameters are named as in the public implementations that others have weights for
// (torchvision's where there is one).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "models/graph/graph.h"
#include "models/zoo/zoo.h"

namespace soapstone::models {

struct ModelSpec {
  std::string name;
  std::string text;  // all of it
  bool tiny = false;
  std::map<std::string, double> options;
  ModelInput input;

  // The option, or what the model has without it.
  double option(const std::string& key, double without) const {
    const auto it = options.find(key);
    return it == options.end() ? without : it->second;
  }
  int64_t count(const std::string& key, int64_t without) const {
    return static_cast<int64_t>(option(key, static_cast<double>(without)));
  }
  int64_t classes(int64_t without) const { return input.classes > 0 ? input.classes : without; }
  int64_t steps(int64_t without) const { return input.steps > 0 ? input.steps : without; }
  std::vector<int64_t> image(const std::vector<int64_t>& without) const {
    return input.image.empty() ? without : input.image;
  }
};

absl::StatusOr<Graph> BuildSoftmax(const ModelSpec& spec);
absl::StatusOr<Graph> BuildMlp(const ModelSpec& spec);
absl::StatusOr<Graph> BuildLenet5(const ModelSpec& spec);
absl::StatusOr<Graph> BuildAlexnet(const ModelSpec& spec);
absl::StatusOr<Graph> BuildResnet50(const ModelSpec& spec);
absl::StatusOr<Graph> BuildResnet101(const ModelSpec& spec);
absl::StatusOr<Graph> BuildInceptionV3(const ModelSpec& spec);
absl::StatusOr<Graph> BuildNasnetA(const ModelSpec& spec);
absl::StatusOr<Graph> BuildRnntc(const ModelSpec& spec);
absl::StatusOr<Graph> BuildRnnlm(const ModelSpec& spec);
absl::StatusOr<Graph> BuildGnmt(const ModelSpec& spec);
absl::StatusOr<Graph> BuildTransformerLm(const ModelSpec& spec);
absl::StatusOr<Graph> BuildBertBase(const ModelSpec& spec);
absl::StatusOr<Graph> BuildHashedDlrm(const ModelSpec& spec);

}  // namespace soapstone::models
