#include "cluster/evaluator.h"

#include <utility>

#include "base/status_macros.h"

namespace soapstone::experiment {

HeldOut HeldOutOf(const worker::DeviceEvent& evaluation) {
  const auto samples = static_cast<double>(evaluation.samples);
  return {.loss = evaluation.loss_sum / samples,
          .accuracy = static_cast<double>(evaluation.correct) / samples};
}

absl::StatusOr<Evaluator> Evaluator::Create(models::Graph graph,
                                            std::shared_ptr<const models::TrainTest> data,
                                            std::shared_ptr<const wire::Layout> layout) {
  SOAP_ASSIGN_OR_RETURN(auto executor, worker::Executor::Create({.graph = std::move(graph),
                                                                 .data = std::move(data),
                                                                 .layout = std::move(layout),
                                                                 .now = [] { return Nanos{0}; }}));
  return Evaluator(std::move(executor));
}

HeldOut Evaluator::Evaluate(std::vector<Buffers> slices) {
  std::vector<worker::DeviceEvent> none;
  executor_->Run({.what = worker::LoadCommand{.frames = std::move(slices)}}, &none);
  return HeldOutOf(executor_->Evaluate());
}

}  // namespace soapstone::experiment
