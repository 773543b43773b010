// What `soapstone models` says: of each model of the zoo its size, work and memory; of one model
// its operators. Values, and their texts. Runs nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/report/step_memory.h"
#include "models/graph/graph.h"

namespace soapstone::apps {

// Of the step whose memory is listed.
struct ListedStep {
  int64_t batch = 8;
  uint64_t optimizer_floats = 0;  // state by element of a parameter
};

// Of one model (named_model.h) at one size.
struct ModelSize {
  std::string model;  // "resnet50", "resnet50:tiny"
  size_t operators = 0;
  uint64_t parameters = 0;       // trained
  int64_t flops_per_sample = 0;  // forward and backward
  StepMemory memory;             // of a step
};
absl::StatusOr<ModelSize> SizeOf(const std::string& model, const ListedStep& step);

struct ZooLine {
  std::string description;
  ModelSize full, tiny;
};
// progress: which model is being looked at, and how many have been; may be null.
absl::StatusOr<std::vector<ZooLine>> ListZoo(
    const ListedStep& step, const std::function<void(const std::string&, double)>& progress);
std::string ZooTable(const std::vector<ZooLine>& lines, int64_t batch);
std::string ZooJson(const std::vector<ZooLine>& lines, int64_t batch);

// One model, operator by operator.
struct ModelDetail {
  std::string model;
  int64_t batch = 1;
  models::Graph graph;
  StepMemory memory, recomputed;  // keeping all activations, and computing some again
  uint64_t live_bytes = 0;        // no plan that keeps all is below it
  LivePeak peak, recomputed_peak;
};
absl::StatusOr<ModelDetail> DetailOf(const std::string& model, const ListedStep& step);
// Stretches of operators that are alike are folded (apps/report/folded_rows.h); the JSON has all.
std::string DetailTable(const ModelDetail& detail);
std::string DetailJson(const ModelDetail& detail);

// Dimensions that may be split, with the kind of split: "n:S h:A w:A o:P c:R".
std::string SplitsOf(const models::Graph& graph, const models::Op& op);
// "[64,55,55]".
std::string ShapeText(const std::vector<int64_t>& shape);

}  // namespace soapstone::apps
