// Operators with weights, but for the recurrent ones.
#include <algorithm>
#include <array>
#include <utility>

#include "base/status_macros.h"
#include "models/formats/onnx/importer.h"
#include "models/formats/onnx/window.h"

namespace soapstone::models {
namespace {

// [rows, columns] → [columns, rows]
OnnxWeight Transposed(const OnnxWeight& in) {
  const auto rows = static_cast<size_t>(in.shape[0]);
  const auto columns = static_cast<size_t>(in.shape[1]);
  OnnxWeight out = {{in.shape[1], in.shape[0]}, std::vector<float>(in.values.size())};
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) out.values[c * rows + r] = in.values[r * columns + c];
  }
  return out;
}

absl::Status CheckMatrix(const OnnxWeight& weight) {
  if (weight.shape.size() == 2) return absl::OkStatus();
  return Refuse("its weight has to be a matrix, not ", OnnxShapeText(weight.shape));
}

// [.., D] without leading ones: how biases are given too.
void DropLeadingOnes(OnnxWeight* weight, size_t rank) {
  while (weight->shape.size() > rank && weight->shape[0] == 1) {
    weight->shape.erase(weight->shape.begin());
  }
}

absl::Status Conv(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->BatchFirstIn(0));
  SOAP_ASSIGN_OR_RETURN(OnnxWeight weight, c->WeightIn(1));
  if (weight.shape.size() != 4) {
    return Refuse("its weight has to be [O, C, h, w], not ", OnnxShapeText(weight.shape));
  }
  SOAP_ASSIGN_OR_RETURN(const compute::Window window,
                        WindowOf(*c, {weight.shape[2], weight.shape[3]}, x.shape));
  std::vector<OnnxWeight> weights;
  const int64_t channels = weight.shape[0];
  weights.push_back(std::move(weight));
  if (c->Has(2)) {
    SOAP_ASSIGN_OR_RETURN(OnnxWeight bias, c->WeightIn(2));
    weights.push_back(std::move(bias));
  }
  const compute::Conv2d what = {.channels = channels,
                                .window = window,
                                .groups = c->Int("group", 1),
                                .bias = weights.size() > 1,
                                .relu = c->AbsorbRelu()};
  return c->EmitOutput(c->NameFrom(1), what, {x.tensor}, x, std::move(weights));
}

// weight: [O, D]
absl::Status EmitLinear(NodeContext* c, const std::string& name, const OnnxValue& x,
                        std::vector<OnnxWeight> weights) {
  const compute::Linear what = {
      .outputs = weights[0].shape[0], .bias = weights.size() > 1, .relu = c->AbsorbRelu()};
  return c->EmitOutput(name, what, {x.tensor}, x, std::move(weights));
}

absl::Status Gemm(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->BatchFirstIn(0));
  if (c->Int("transA", 0) != 0) return Refuse("transA is not supported");
  if (c->Float("alpha", 1) != 1 || c->Float("beta", 1) != 1) {
    return Refuse("alpha and beta other than 1 are not supported");
  }
  SOAP_ASSIGN_OR_RETURN(OnnxWeight weight, c->WeightIn(1));
  SOAP_RETURN_IF_ERROR(CheckMatrix(weight));
  if (c->Int("transB", 0) == 0) weight = Transposed(weight);
  std::vector<OnnxWeight> weights = {std::move(weight)};
  if (c->Has(2)) {
    SOAP_ASSIGN_OR_RETURN(OnnxWeight bias, c->WeightIn(2));
    DropLeadingOnes(&bias, 1);
    weights.push_back(std::move(bias));
  }
  return EmitLinear(c, c->NameFrom(1), x, std::move(weights));
}

// The bias of a MatMul is an Add after it.
absl::StatusOr<bool> AbsorbBias(NodeContext* c, int64_t outputs, std::string* name,
                                std::vector<OnnxWeight>* weights) {
  const OnnxNode* next = c->NextIs("Add");
  if (next == nullptr || next->inputs.size() != 2) return false;
  for (absl::string_view input : next->inputs) {
    const absl::StatusOr<OnnxValue> value = c->ValueOf(input);
    if (!value.ok() || value->sort != ValueSort::kConstant) continue;
    const std::vector<int64_t>& dims = value->constant->dims;
    SOAP_ASSIGN_OR_RETURN(const int64_t elements, ElementsOf(dims));
    if (dims.empty() || dims.back() != outputs || elements != outputs) return false;
    SOAP_ASSIGN_OR_RETURN(std::vector<float> values, FloatsOf(*value->constant));
    weights->push_back({{outputs}, std::move(values)});
    constexpr absl::string_view kBias = ".bias";
    const size_t stem = input.size() - std::min(input.size(), kBias.size());
    if (stem > 0 && input.substr(stem) == kBias) *name = CleanText(input.substr(0, stem));
    c->Absorb("Add");
    return true;
  }
  return false;
}

// X [.., D] times a constant [D, O].
absl::Status MatMul(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->ShapedIn(0));
  SOAP_ASSIGN_OR_RETURN(const OnnxWeight weight, c->WeightIn(1));
  SOAP_RETURN_IF_ERROR(CheckMatrix(weight));
  if (x.batch_axis == x.shape.size()) return Refuse("its input's last axis is the batch");
  std::vector<OnnxWeight> weights = {Transposed(weight)};
  std::string name = c->NameFrom(1);
  const absl::StatusOr<bool> bias = AbsorbBias(c, weight.shape[1], &name, &weights);
  if (!bias.ok()) return bias.status();
  return EmitLinear(c, name, x, std::move(weights));
}

absl::Status BatchNormalization(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->BatchFirstIn(0));
  std::vector<OnnxWeight> weights;
  for (size_t i = 1; i <= 4; ++i) {
    SOAP_ASSIGN_OR_RETURN(OnnxWeight weight, c->WeightIn(i));
    weights.push_back(std::move(weight));
  }
  const compute::BatchNorm what = {.epsilon = c->Float("epsilon", 1e-5F),
                                   // ONNX's is the share that stays
                                   .momentum = 1 - c->Float("momentum", 0.9F),
                                   .relu = c->AbsorbRelu()};
  return c->EmitOutput(c->NameFrom(1), what, {x.tensor}, x, std::move(weights));
}

absl::Status LayerNormalization(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->ShapedIn(0));
  SOAP_ASSIGN_OR_RETURN(const size_t axis, AxisOf(c->Int("axis", -1), x.rank()));
  if (axis + 1 != x.rank() || x.batch_axis == axis) {
    return Refuse("it has to be over the last axis alone");
  }
  SOAP_ASSIGN_OR_RETURN(OnnxWeight scale, c->WeightIn(1));
  OnnxWeight bias = {scale.shape, std::vector<float>(scale.values.size())};
  if (c->Has(2)) {
    SOAP_ASSIGN_OR_RETURN(bias, c->WeightIn(2));
  }
  if (c->IsRead(1) || c->IsRead(2)) return Refuse("its mean and deviation are not given out");
  return c->EmitOutput(c->NameFrom(1), compute::LayerNorm{.epsilon = c->Float("epsilon", 1e-5F)},
                       {x.tensor}, x, {std::move(scale), std::move(bias)});
}

// x + a constant of a sample's shape: learned positions.
absl::Status AddConstant(NodeContext* c, size_t constant) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->BatchFirstIn(1 - constant));
  SOAP_ASSIGN_OR_RETURN(OnnxWeight weight, c->WeightIn(constant));
  const std::vector<int64_t> shape = weight.shape;
  DropLeadingOnes(&weight, x.shape.size());
  if (weight.shape != x.shape) {
    return Refuse("a constant of shape ", OnnxShapeText(shape), " cannot be added to ",
                  OnnxShapeText(OnnxShapeOf(x)), ": it has to have a sample's shape");
  }
  return c->EmitOutput(c->NameFrom(constant), compute::AddParameter{}, {x.tensor}, x,
                       {std::move(weight)});
}

absl::Status Add(NodeContext* c) {
  if (c->node().inputs.size() != 2) return Refuse("it takes two inputs");
  for (size_t i = 0; i < 2; ++i) {
    SOAP_ASSIGN_OR_RETURN(const OnnxValue value, c->In(i));
    if (value.sort == ValueSort::kConstant) return AddConstant(c, i);
  }
  SOAP_ASSIGN_OR_RETURN(const OnnxValue a, c->ShapedIn(0));
  SOAP_ASSIGN_OR_RETURN(const OnnxValue b, c->ShapedIn(1));
  if (a.batch_axis != b.batch_axis) return Refuse("its inputs have the batch on different axes");
  const std::string name = c->OwnName();
  return c->EmitOutput(name, compute::Add{.relu = c->AbsorbRelu()}, {a.tensor, b.tensor}, a);
}

constexpr std::array<Translation, 6> kLayers = {{{"Add", Add},
                                                 {"BatchNormalization", BatchNormalization},
                                                 {"Conv", Conv},
                                                 {"Gemm", Gemm},
                                                 {"LayerNormalization", LayerNormalization},
                                                 {"MatMul", MatMul}}};

}  // namespace

absl::Span<const Translation> LayerTranslations() { return kLayers; }

absl::Status TranslateEmbedding(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue ids, c->ShapedIn(1));
  if (c->Int("axis", 0) != 0) return Refuse("rows of a table are taken along axis 0 alone");
  SOAP_ASSIGN_OR_RETURN(OnnxWeight table, c->WeightIn(0));
  SOAP_RETURN_IF_ERROR(CheckMatrix(table));
  const compute::Embedding what = {.rows = table.shape[0], .dim = table.shape[1]};
  return c->EmitOutput(c->NameFrom(0), what, {ids.tensor}, ids, {std::move(table)});
}

}  // namespace soapstone::models
