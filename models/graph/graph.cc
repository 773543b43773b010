#include "models/graph/graph.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/ops/cost_terms.h"

namespace soapstone::models {
namespace {

constexpr int64_t kElementsMax = int64_t{1} << 40;

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

int64_t Product(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

bool IsPossible(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (int64_t d : shape) {
    if (d <= 0 || d > kElementsMax / elements) return false;
    elements *= d;
  }
  return true;
}

}  // namespace

int64_t Tensor::elements() const { return Product(shape); }

compute::TensorSpec Tensor::spec(int64_t samples) const {
  compute::TensorSpec spec = {.type = type, .shape = {samples}};
  spec.shape.insert(spec.shape.end(), shape.begin(), shape.end());
  return spec;
}

uint64_t Graph::parameter_count() const {
  uint64_t n = 0;
  for (const ParamSpec& param : params_) n += param.average_rate > 0 ? 0 : param.elements();
  return n;
}

int64_t Graph::flops_per_sample() const {
  int64_t n = 0;
  for (const Op& op : ops_) n = Plus(n, Plus(op.cost.forward_flops, op.cost.backward_flops));
  return n;
}

OpShapes Graph::ShapesOf(const Op& op, int64_t samples) const {
  OpShapes shapes;
  for (TensorId in : op.inputs) shapes.inputs.push_back(tensor(in).spec(samples));
  for (TensorId out : op.outputs) shapes.outputs.push_back(tensor(out).spec(samples));
  for (ParamId id : op.params) shapes.params.push_back(param(id));
  return shapes;
}

GraphBuilder::GraphBuilder(std::string_view name) { graph_.name_ = std::string(name); }

TensorId GraphBuilder::Input(std::string_view name, DataType type, std::vector<int64_t> shape) {
  if (!IsPossible(shape)) {
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(absl::StrCat(
          graph_.name_, ": ", std::string(name), " shape ", ShapeText(shape), " is impossible"));
    }
    shape = {1};
  }
  graph_.inputs_.push_back(AddTensor(std::string(name), type, std::move(shape)));
  return graph_.inputs_.back();
}

void GraphBuilder::Fail(const compute::Operator& what, std::string_view name,
                        std::string_view why) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(absl::StrCat(graph_.name_, ": ",
                                                    std::string(compute::NameOf(what)), " '",
                                                    std::string(name), "': ", std::string(why)));
}

TensorId GraphBuilder::AddTensor(std::string name, DataType type, std::vector<int64_t> shape) {
  graph_.tensors_.push_back({std::move(name), type, std::move(shape)});
  return static_cast<TensorId>(graph_.tensors_.size() - 1);
}

TensorId GraphBuilder::Apply(std::string_view name, compute::Operator what,
                             std::vector<TensorId> inputs) {
  return ApplyAll(name, std::move(what), std::move(inputs), 1)[0];
}

std::vector<TensorId> GraphBuilder::ApplyAll(std::string_view name, compute::Operator what,
                                             std::vector<TensorId> inputs, size_t outputs) {
  std::vector<TensorId> failed(outputs);
  if (!status_.ok()) return failed;
  if (!names_.insert(std::string(name)).second) {
    Fail(what, name, "the name is taken");
    return failed;
  }
  Op op = {.what = std::move(what), .name = std::string(name), .inputs = std::move(inputs)};
  std::vector<compute::TensorSpec> specs;
  for (TensorId in : op.inputs) specs.push_back(graph_.tensor(in).spec(1));
  absl::StatusOr<OpShapes> shapes = InferShapes(op.what, specs);
  if (!shapes.ok()) {
    Fail(op.what, name, std::string(shapes.status().message()));
    return failed;
  }
  op.cost = CostOf(op.what, *shapes);
  for (size_t i = 0; i < shapes->outputs.size(); ++i) {
    std::vector<int64_t>& shape = shapes->outputs[i].shape;
    op.outputs.push_back(AddTensor(i == 0 ? op.name : absl::StrCat(op.name, ":", i),
                                   shapes->outputs[i].type, {shape.begin() + 1, shape.end()}));
  }
  for (ParamSpec& param : shapes->params) {
    param.name = absl::StrCat(op.name, ".", param.name);
    op.params.push_back(ParamId{static_cast<uint32_t>(graph_.params_.size())});
    graph_.params_.push_back(std::move(param));
  }
  std::vector<TensorId> all = op.outputs;
  all.resize(outputs, all[0]);
  graph_.ops_.push_back(std::move(op));
  return all;
}

TensorId GraphBuilder::Flatten(std::string_view name, TensorId in) {
  return Apply(name, compute::Reshape{.shape = {graph_.tensor(in).elements()}}, {in});
}

void GraphBuilder::Loss(std::string_view name, TensorId logits) {
  std::vector<int64_t> shape = graph_.tensor(logits).shape;
  if (!shape.empty()) shape.pop_back();
  Apply(name, compute::SoftmaxCrossEntropy{},
        {logits, Input("labels", DataType::kInt32, std::move(shape))});
}

void GraphBuilder::SetInitialScales() {
  std::vector<const Op*> weighted(graph_.tensors_.size());  // by what it makes
  for (const Op& op : graph_.ops_) {
    const bool is_weighted = std::holds_alternative<compute::Linear>(op.what) ||
                             std::holds_alternative<compute::Conv2d>(op.what);
    if (is_weighted) weighted[Index(op.outputs[0])] = &op;
  }
  for (const Op& op : graph_.ops_) {
    const auto* relu = std::get_if<compute::Activation>(&op.what);
    if (relu == nullptr || relu->kind != compute::ActivationKind::kRelu) continue;
    const Op* before = weighted[Index(op.inputs[0])];
    if (before == nullptr) continue;
    ParamSpec& weight = graph_.params_[soapstone::Index(before->params[0])];
    const double fan_in =
        static_cast<double>(Product(weight.shape)) / static_cast<double>(weight.shape[0]);
    weight.scale = std::sqrt(6.0 / fan_in);
  }
}

absl::Status GraphBuilder::CheckEnd() const {
  const auto is_loss = [](const Op& op) {
    return std::holds_alternative<compute::SoftmaxCrossEntropy>(op.what);
  };
  size_t losses = 0;
  for (const Op& op : graph_.ops_) losses += is_loss(op) ? 1 : 0;
  if (losses != 1 || !is_loss(graph_.ops_.back())) {
    return absl::InvalidArgumentError(
        absl::StrCat(graph_.name_, ": a model ends in one softmax_cross_entropy"));
  }
  std::vector<bool> read(graph_.tensors_.size());
  for (const Op& op : graph_.ops_) {
    for (TensorId in : op.inputs) read[Index(in)] = true;
  }
  for (const Op& op : graph_.ops_) {
    const bool any = std::any_of(op.outputs.begin(), op.outputs.end(),
                                 [&](TensorId out) { return read[Index(out)]; });
    if (is_loss(op) || any) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(graph_.name_, ": nothing reads the output of '", op.name, "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Graph> GraphBuilder::Build() {
  if (!status_.ok()) return status_;
  if (absl::Status end = CheckEnd(); !end.ok()) return end;
  SetInitialScales();
  return std::move(graph_);
}

}  // namespace soapstone::models
