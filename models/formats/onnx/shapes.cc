// Operators that move elements, and those that compute shapes.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "models/formats/onnx/importer.h"

namespace soapstone::models {
namespace {

// [0, 1, .., rank) after sorting? Then the permutation is one.
bool Permutes(const std::vector<int64_t>& permutation, size_t rank) {
  std::vector<int64_t> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i)) return false;
  }
  return sorted.size() == rank;
}

absl::Status Same(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(OnnxValue value, c->In(0));
  c->SetOutput(0, std::move(value));
  return absl::OkStatus();
}

absl::Status Cast(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue value, c->In(0));
  const int64_t to = c->Int("to", 0);
  const bool whole = to == kOnnxInt64 || to == kOnnxInt32;
  if (value.sort == ValueSort::kTensor ? whole == c->IsWhole(value.tensor)
                                       : IsIntegers(value) == whole) {
    if (whole || to == kOnnxFloat) return Same(c);
  }
  return Refuse("a cast to element type ", to,
                " changes the values; those of ids to int64 or int32",
                " and of floats to float do not");
}

absl::Status Constant(NodeContext* c) {
  if (const OnnxAttribute* value = c->Find("value"); value != nullptr && value->has_tensor) {
    OnnxValue constant = {.sort = ValueSort::kConstant};
    constant.constant = &value->tensor;
    c->SetOutput(0, std::move(constant));
    return absl::OkStatus();
  }
  if (const OnnxAttribute* value = c->Find("value_int")) return c->SetIntegers({value->i}, true);
  if (const OnnxAttribute* value = c->Find("value_ints")) return c->SetIntegers(value->integers);
  return Refuse("a tensor or integers are supported as its value");
}

absl::Status ConstantOfShape(NodeContext* c) {
  const OnnxAttribute* value = c->Find("value");
  if (value == nullptr) return c->SetZeros();
  const absl::StatusOr<std::vector<float>> floats = FloatsOf(value->tensor);
  if (floats.ok() && floats->size() == 1 && (*floats)[0] == 0) return c->SetZeros();
  return Refuse("zeros are supported, as a recurrent layer's first state");
}

absl::Status Expand(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue value, c->In(0));
  bool zeros = value.sort == ValueSort::kZeros;
  if (value.sort == ValueSort::kConstant) {
    const absl::StatusOr<std::vector<float>> values = FloatsOf(*value.constant);
    zeros =
        values.ok() && std::all_of(values->begin(), values->end(), [](float v) { return v == 0; });
  }
  if (zeros) return c->SetZeros();
  return Refuse("zeros are supported, as a recurrent layer's first state");
}

absl::Status ShapeOfInput(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue value, c->TensorIn(0));
  if (c->Find("start") != nullptr || c->Find("end") != nullptr) {
    return Refuse("start and end are not supported");
  }
  return c->SetIntegers(OnnxShapeOf(value));
}

// A view of `value` with this shape, the batch at `batch_axis` of it.
absl::Status SetView(NodeContext* c, OnnxValue value, std::vector<int64_t> sample,
                     size_t batch_axis) {
  constexpr size_t kRankMax = 16;
  if (sample.size() >= kRankMax) return Refuse("tensors of more than ", kRankMax, " dimensions");
  value.shape = std::move(sample);
  value.batch_axis = batch_axis;
  c->SetOutput(0, std::move(value));
  return absl::OkStatus();
}

// The target of a Reshape with what stands for "as before" and "whatever is left" filled in, and
// where the batch is in it.
struct Target {
  std::vector<int64_t> sample;
  size_t batch_axis = 0;
};

// The target's axis `batch` as the batch: it has to have as much before it as the input has, so
// that each sample keeps its elements. Nothing if it cannot be that.
std::optional<Target> TargetWithBatchAt(const OnnxValue& x, const std::vector<int64_t>& wanted,
                                        size_t batch, int64_t batch_size) {
  const int64_t at = wanted[batch];
  const bool may_be = at == kBatch || at == -1 || (at == 0 && batch == x.batch_axis) ||
                      (batch_size > 0 && at == batch_size);
  if (!may_be) return std::nullopt;
  const std::vector<int64_t> before = OnnxShapeOf(x);
  Target target = {.batch_axis = batch};
  int64_t known = 1;
  std::optional<size_t> open;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i == batch) continue;
    int64_t d = wanted[i];
    if (d == 0 && i < before.size()) d = before[i];
    if (d == -1 && at != -1 && !open.has_value()) {
      open = target.sample.size();
    } else if (d < 1 || d > (int64_t{1} << 40) / known) {
      return std::nullopt;
    } else {
      known *= d;
    }
    target.sample.push_back(d);
  }
  int64_t all = 1, lead = 1;
  for (size_t i = 0; i < x.shape.size(); ++i) {
    all *= x.shape[i];
    if (i < x.batch_axis) lead *= x.shape[i];
  }
  if (open.has_value()) target.sample[*open] = all / known;
  int64_t elements = 1, before_batch = 1;
  for (size_t i = 0; i < target.sample.size(); ++i) {
    elements *= target.sample[i];
    if (i < batch) before_batch *= target.sample[i];
  }
  if (elements != all || before_batch != lead) return std::nullopt;
  return target;
}

absl::Status Reshape(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->TensorIn(0));
  SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> wanted,
                        c->IntegersOfAttributeOrInput("shape", 1));
  if (c->Int("allowzero", 0) != 0) return Refuse("allowzero is not supported");
  for (size_t batch = 0; batch < wanted.size(); ++batch) {
    if (std::optional<Target> target = TargetWithBatchAt(x, wanted, batch, c->batch())) {
      return SetView(c, x, std::move(target->sample), target->batch_axis);
    }
  }
  return Refuse("from ", OnnxShapeText(OnnxShapeOf(x)), " to ", OnnxShapeText(wanted),
                ": the batch has to stay an axis of its own, and the elements as many");
}

absl::Status Flatten(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->TensorIn(0));
  SOAP_ASSIGN_OR_RETURN(const size_t axis, AxisOf(c->Int("axis", 1), x.rank() + 1));
  if (x.batch_axis != 0 || axis != 1) return Refuse("axis 1, behind the batch, is supported");
  SOAP_ASSIGN_OR_RETURN(const int64_t elements, ElementsOf(x.shape));
  return SetView(c, x, {elements}, 0);
}

absl::Status Transpose(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(OnnxValue x, c->ShapedIn(0));
  std::vector<int64_t> reversed;
  for (size_t i = x.rank(); i > 0; --i) reversed.push_back(static_cast<int64_t>(i) - 1);
  const std::vector<int64_t> perm = c->Ints("perm", reversed);
  if (!Permutes(perm, x.rank())) {
    return Refuse("perm ", OnnxShapeText(perm), " does not permute the axes of ",
                  OnnxShapeText(OnnxShapeOf(x)));
  }
  // Without the batch, in our numbers of axes.
  const auto batch = static_cast<int64_t>(x.batch_axis);
  std::vector<int64_t> ours = {0};
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] == batch) {
      x.batch_axis = i;
    } else {
      ours.push_back(perm[i] < batch ? perm[i] + 1 : perm[i]);
    }
  }
  if (std::is_sorted(ours.begin(), ours.end())) {
    c->SetOutput(0, std::move(x));
    return absl::OkStatus();
  }
  return c->EmitOutput(c->OwnName(), compute::Transpose{.permutation = ours}, {x.tensor}, x);
}

absl::Status Unsqueeze(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(OnnxValue x, c->In(0));
  if (IsIntegers(x)) {
    if (!IsScalar(x)) return Refuse("of integers one number is supported");
    SOAP_ASSIGN_OR_RETURN(std::vector<int64_t> integers, c->IntegersIn(0));
    return c->SetIntegers(std::move(integers));
  }
  if (x.sort == ValueSort::kZeros) return c->SetZeros();
  SOAP_ASSIGN_OR_RETURN(x, c->TensorIn(0));
  SOAP_ASSIGN_OR_RETURN(std::vector<int64_t> axes, c->IntegersOfAttributeOrInput("axes", 1));
  std::vector<int64_t> shape = OnnxShapeOf(x);
  const size_t rank = shape.size() + axes.size();
  for (int64_t& axis : axes) {
    SOAP_ASSIGN_OR_RETURN(const size_t found, AxisOf(axis, rank));
    axis = static_cast<int64_t>(found);
  }
  std::sort(axes.begin(), axes.end());
  for (int64_t axis : axes) {
    if (static_cast<size_t>(axis) > shape.size()) return Refuse("axes that are given twice");
    shape.insert(shape.begin() + axis, 1);
  }
  const auto batch = std::find(shape.begin(), shape.end(), kBatch);
  const auto at = static_cast<size_t>(batch - shape.begin());
  shape.erase(batch);
  return SetView(c, x, std::move(shape), at);
}

absl::Status Squeeze(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(OnnxValue x, c->In(0));
  if (IsIntegers(x)) {
    SOAP_ASSIGN_OR_RETURN(std::vector<int64_t> integers, c->IntegersIn(0));
    if (integers.size() != 1) return Refuse("of integers one number is supported");
    return c->SetIntegers(std::move(integers), true);
  }
  if (x.sort == ValueSort::kZeros) return c->SetZeros();
  SOAP_ASSIGN_OR_RETURN(x, c->TensorIn(0));
  SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, c->IntegersOfAttributeOrInput("axes", 1));
  if (axes.empty()) return Refuse("without axes it depends on the size of the batch");
  std::vector<bool> drop(x.shape.size());
  for (int64_t axis : axes) {
    SOAP_ASSIGN_OR_RETURN(const size_t found, SampleAxisOf(axis, x));
    if (x.shape[found] != 1) {
      return Refuse("axis ", axis, " of ", OnnxShapeText(OnnxShapeOf(x)), " is not of size 1");
    }
    drop[found] = true;
  }
  std::vector<int64_t> shape;
  size_t batch = x.batch_axis;
  for (size_t i = 0; i < drop.size(); ++i) {
    if (!drop[i]) shape.push_back(x.shape[i]);
    if (drop[i] && i < x.batch_axis) --batch;
  }
  return SetView(c, x, std::move(shape), batch);
}

constexpr std::array<Translation, 11> kShapes = {{{"Cast", Cast},
                                                  {"Constant", Constant},
                                                  {"ConstantOfShape", ConstantOfShape},
                                                  {"Expand", Expand},
                                                  {"Flatten", Flatten},
                                                  {"Identity", Same},
                                                  {"Reshape", Reshape},
                                                  {"Shape", ShapeOfInput},
                                                  {"Squeeze", Squeeze},
                                                  {"Transpose", Transpose},
                                                  {"Unsqueeze", Unsqueeze}}};

}  // namespace

absl::Span<const Translation> ShapeTranslations() { return kShapes; }

}  // namespace soapstone::models
