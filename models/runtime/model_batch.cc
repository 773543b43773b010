#include "models/runtime/model_batch.h"

#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "models/graph/step_graph.h"
#include "models/runtime/model_input.h"

namespace soapstone::models {
namespace {

// Where one model is in its steps.
class ModelSteps {
 public:
  ModelSteps(const BatchedModel& model, size_t index) : model_(model), index_(index) {
    for (const Op& op : model.replica->graph().ops()) {
      where_.emplace_back();
      for (ParamId id : op.params) {
        where_.back().push_back(model.gradients[soapstone::Index(id)]);
      }
    }
  }

  // Runs one half of an operator, or begins a step if it is to go on. False: it has ended.
  absl::StatusOr<bool> Advance(absl::FunctionRef<bool(size_t, uint64_t)> go_on) {
    const size_t ops = where_.size();
    if (next_ == 0) {
      if (steps_ > 0) model_.replica->WaitForGradients(0);
      if (!go_on(index_, steps_)) return false;
      SOAP_RETURN_IF_ERROR(
          model_.replica->Begin(model_.feed->samples, FieldsOf(*model_.feed), {.step = steps_}));
    }
    if (next_ < ops) {
      model_.replica->ForwardOp(next_);
    } else {
      const size_t op = 2 * ops - 1 - next_;
      model_.replica->BackwardOp(op, where_[op]);
    }
    if (++next_ == 2 * ops) {
      next_ = 0;
      ++steps_;
    }
    return true;
  }

 private:
  const BatchedModel& model_;
  const size_t index_;
  std::vector<std::vector<absl::Span<float>>> where_;  // by operator
  size_t next_ = 0;  // half of an operator: forward in order, then backward in reverse
  uint64_t steps_ = 0;
};

absl::Status RunToEnd(ModelSteps* steps, absl::FunctionRef<bool(size_t, uint64_t)> go_on) {
  while (true) {
    SOAP_ASSIGN_OR_RETURN(const bool more, steps->Advance(go_on));
    if (!more) return absl::OkStatus();
  }
}

}  // namespace

absl::Status RunModelBatch(absl::Span<const BatchedModel> models, ModelTurns turns,
                           absl::FunctionRef<bool(size_t, uint64_t)> go_on) {
  std::vector<ModelSteps> steps;
  for (size_t i = 0; i < models.size(); ++i) steps.emplace_back(models[i], i);
  std::vector<absl::Status> ends(models.size());
  if (turns == ModelTurns::kThreadEach) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < models.size(); ++i) {
      threads.emplace_back([&, i] { ends[i] = RunToEnd(&steps[i], go_on); });
    }
    for (std::thread& thread : threads) thread.join();
  } else {
    std::vector<bool> running(models.size(), true);
    for (size_t left = models.size(); left > 0;) {
      for (size_t i = 0; i < models.size(); ++i) {
        if (!running[i]) continue;
        const absl::StatusOr<bool> more = steps[i].Advance(go_on);
        if (!more.ok()) ends[i] = more.status();
        running[i] = more.ok() && *more;
        if (!running[i]) --left;
      }
    }
  }
  for (const absl::Status& end : ends) SOAP_RETURN_IF_ERROR(end);
  return absl::OkStatus();
}

std::vector<compute::KernelRequest> PlainRequests(const Graph& graph, int64_t samples) {
  const std::vector<bool> wanted = GradientsWanted(graph, {});
  std::vector<compute::KernelRequest> requests;
  for (size_t k = 0; k < graph.ops().size(); ++k) {
    const Op& op = graph.ops()[k];
    const OpShapes shapes = graph.ShapesOf(op, samples);
    compute::KernelRequest request = {.op = op.what,
                                      .name = op.name,
                                      .outputs = shapes.outputs,
                                      .input_grads_wanted = InputGradientsWanted(graph, wanted, op),
                                      .op_index = static_cast<uint32_t>(k)};
    for (TensorId in : op.inputs) {
      request.inputs.push_back(compute::PlainFormat(graph.tensor(in).spec(samples)));
    }
    for (const ParamSpec& param : shapes.params) {
      request.params.push_back({.type = DataType::kFloat32, .shape = param.shape});
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace soapstone::models
