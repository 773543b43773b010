// Evaluator: loss and accuracy on the held-out data of parameters as shards hold them. Who calls:
// co-simulation at each point of its curve, and the launcher of a real run when it is over. One
// thread.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/memory/buffer.h"
#include "models/data/dataset.h"
#include "models/graph/graph.h"
#include "wire/layout.h"
#include "worker/device/executor.h"

namespace soapstone::experiment {

struct HeldOut {
  double loss = 0;  // mean over the samples
  double accuracy = 0;
};

HeldOut HeldOutOf(const worker::DeviceEvent& evaluation);

class Evaluator {
 public:
  // The layout is of the graph's parameters, or of pieces of them (a team's).
  // Error: an operator that this machine cannot run.
  static absl::StatusOr<Evaluator> Create(models::Graph graph,
                                          std::shared_ptr<const models::TrainTest> data,
                                          std::shared_ptr<const wire::Layout> layout);

  // slices: by shard, by slice, as server::Store::Read. REQUIRES: of the layout's sizes.
  HeldOut Evaluate(std::vector<Buffers> slices);

 private:
  explicit Evaluator(std::unique_ptr<worker::Executor> executor) : executor_(std::move(executor)) {}

  std::unique_ptr<worker::Executor> executor_;
  std::shared_ptr<const wire::Layout> pieces_;  // null: parameters are whole
};

}  // namespace soapstone::experiment
