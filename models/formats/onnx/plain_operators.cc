// Operators without weights that compute.
#include <algorithm>
#include <array>
#include <utility>

#include "base/status_macros.h"
#include "models/formats/onnx/importer.h"
#include "models/formats/onnx/window.h"

namespace soapstone::models {
namespace {

absl::Status EmitPool(NodeContext* c, compute::PoolKind kind, bool count_padding) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->BatchFirstIn(0));
  if (c->Find("kernel_shape") == nullptr) return Refuse("it has no kernel_shape");
  SOAP_ASSIGN_OR_RETURN(const compute::Window window, WindowOf(*c, {}, x.shape));
  const compute::Pool what = {.kind = kind, .window = window, .count_padding = count_padding};
  return c->EmitOutput(c->OwnName(), what, {x.tensor}, x);
}

absl::Status MaxPool(NodeContext* c) {
  if (c->IsRead(1)) return Refuse("its indexes are not given out");
  return EmitPool(c, compute::PoolKind::kMax, true);
}

absl::Status AveragePool(NodeContext* c) {
  return EmitPool(c, compute::PoolKind::kAverage, c->Int("count_include_pad", 0) != 0);
}

// axes: of ONNX. Reduced ones stay with extent 1 if `keep`.
absl::Status EmitReduce(NodeContext* c, compute::ReduceKind kind, const std::vector<int64_t>& axes,
                        bool keep) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->ShapedIn(0));
  std::vector<int64_t> of_sample;
  for (int64_t axis : axes) {
    SOAP_ASSIGN_OR_RETURN(const size_t found, SampleAxisOf(axis, x));
    of_sample.push_back(static_cast<int64_t>(found) + 1);
  }
  std::sort(of_sample.begin(), of_sample.end());
  SOAP_ASSIGN_OR_RETURN(
      const std::vector<TensorId> made,
      c->Emit(c->OwnName(), compute::Reduce{.kind = kind, .axes = of_sample}, {x.tensor}));
  OnnxValue y = x;
  y.tensor = made[0];
  if (keep) {
    for (int64_t axis : of_sample) y.shape[static_cast<size_t>(axis - 1)] = 1;
  } else {
    y.shape = c->ShapeOf(made[0]);
    for (int64_t axis : of_sample) {
      if (static_cast<size_t>(axis) <= x.batch_axis) --y.batch_axis;
    }
  }
  c->SetOutput(0, std::move(y));
  return absl::OkStatus();
}

absl::Status ReduceWith(NodeContext* c, compute::ReduceKind kind) {
  SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, c->IntegersOfAttributeOrInput("axes", 1));
  if (axes.empty()) return Refuse("without axes it would reduce the batch too");
  return EmitReduce(c, kind, axes, c->Int("keepdims", 1) != 0);
}

absl::Status ReduceMean(NodeContext* c) { return ReduceWith(c, compute::ReduceKind::kMean); }
absl::Status ReduceSum(NodeContext* c) { return ReduceWith(c, compute::ReduceKind::kSum); }

absl::Status GlobalAveragePool(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->BatchFirstIn(0));
  if (x.shape.size() != 3) {
    return Refuse("it takes an image [N, C, H, W], not ", OnnxShapeText(OnnxShapeOf(x)));
  }
  return EmitReduce(c, compute::ReduceKind::kMean, {2, 3}, true);
}

absl::Status Lrn(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->BatchFirstIn(0));
  const compute::LocalResponseNorm what = {.size = c->Int("size", 0),
                                           .alpha = c->Float("alpha", 1e-4F),
                                           .beta = c->Float("beta", 0.75F),
                                           .k = c->Float("bias", 1)};
  // The file's window has its odd channel behind the centre, the operator's before it.
  if (what.size % 2 == 0)
    return Refuse("a window of an even size, ", what.size, ", is not supported");
  return c->EmitOutput(c->OwnName(), what, {x.tensor}, x);
}

absl::Status EmitActivation(NodeContext* c, compute::ActivationKind kind) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->ShapedIn(0));
  return c->EmitOutput(c->OwnName(), compute::Activation{.kind = kind}, {x.tensor}, x);
}

absl::Status Relu(NodeContext* c) { return EmitActivation(c, compute::ActivationKind::kRelu); }
absl::Status Tanh(NodeContext* c) { return EmitActivation(c, compute::ActivationKind::kTanh); }
absl::Status Sigmoid(NodeContext* c) {
  return EmitActivation(c, compute::ActivationKind::kSigmoid);
}
absl::Status Gelu(NodeContext* c) {
  const std::string approximate = c->Text("approximate", "none");
  if (approximate != "none") return Refuse("approximate ", approximate, " is not supported");
  return EmitActivation(c, compute::ActivationKind::kGelu);
}

absl::StatusOr<double> RateOf(const NodeContext& c) {
  if (!c.Has(1)) return c.Float("ratio", 0.5);
  SOAP_ASSIGN_OR_RETURN(const OnnxWeight ratio, c.WeightIn(1));
  if (ratio.values.size() == 1) return static_cast<double>(ratio.values[0]);
  return Refuse("its ratio has to be one number");
}

absl::Status Dropout(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(OnnxValue x, c->ShapedIn(0));
  if (c->IsRead(1)) return Refuse("its mask is not given out");
  SOAP_ASSIGN_OR_RETURN(const double rate, RateOf(*c));
  if (rate == 0) {
    c->SetOutput(0, std::move(x));
    return absl::OkStatus();
  }
  return c->EmitOutput(c->OwnName(), compute::Dropout{.rate = rate}, {x.tensor}, x);
}

absl::Status Mul(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue a, c->ShapedIn(0));
  SOAP_ASSIGN_OR_RETURN(const OnnxValue b, c->ShapedIn(1));
  if (a.batch_axis != b.batch_axis) return Refuse("its inputs have the batch on different axes");
  return c->EmitOutput(c->OwnName(), compute::Multiply{}, {a.tensor, b.tensor}, a);
}

constexpr std::array<Translation, 12> kPlain = {{{"AveragePool", AveragePool},
                                                 {"Dropout", Dropout},
                                                 {"Gelu", Gelu},
                                                 {"GlobalAveragePool", GlobalAveragePool},
                                                 {"LRN", Lrn},
                                                 {"MaxPool", MaxPool},
                                                 {"Mul", Mul},
                                                 {"ReduceMean", ReduceMean},
                                                 {"ReduceSum", ReduceSum},
                                                 {"Relu", Relu},
                                                 {"Sigmoid", Sigmoid},
                                                 {"Tanh", Tanh}}};

}  // namespace

absl::Span<const Translation> PlainTranslations() { return kPlain; }

}  // namespace soapstone::models
