// Operators that join and cut, of tensors and of shapes.
#include <algorithm>
#include <array>
#include <utility>

#include "base/status_macros.h"
#include "models/formats/onnx/importer.h"

namespace soapstone::models {
namespace {

absl::Status Concat(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue first, c->In(0));
  const size_t count = c->node().inputs.size();
  bool integers = true;
  for (size_t i = 0; i < count; ++i) {
    SOAP_ASSIGN_OR_RETURN(const OnnxValue value, c->In(i));
    integers = integers && IsIntegers(value);
  }
  if (integers) {
    std::vector<int64_t> joined;
    for (size_t i = 0; i < count; ++i) {
      SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> part, c->IntegersIn(i));
      joined.insert(joined.end(), part.begin(), part.end());
    }
    return c->SetIntegers(std::move(joined));
  }
  std::vector<TensorId> parts;
  OnnxValue like;
  for (size_t i = 0; i < count; ++i) {
    SOAP_ASSIGN_OR_RETURN(const OnnxValue value, c->ShapedIn(i));
    if (i == 0) like = value;
    if (value.batch_axis != like.batch_axis) {
      return Refuse("its inputs have the batch on different axes");
    }
    parts.push_back(value.tensor);
  }
  SOAP_ASSIGN_OR_RETURN(const size_t axis, SampleAxisOf(c->Int("axis", 1), like));
  return c->EmitOutput(c->OwnName(), compute::Concat{.axis = static_cast<int64_t>(axis) + 1}, parts,
                       like);
}

// Elements [begin, end) along an axis of the sample. REQUIRES: 0 <= begin < end <= its size.
absl::StatusOr<OnnxValue> Cut(NodeContext* c, OnnxValue x, size_t axis, int64_t begin,
                              int64_t end) {
  const int64_t size = x.shape[axis];
  if (begin == 0 && end == size) return x;
  compute::Split what = {.axis = static_cast<int64_t>(axis) + 1};
  if (begin > 0) what.sizes.push_back(begin);
  what.sizes.push_back(end - begin);
  if (end < size) what.sizes.push_back(size - end);
  const size_t pieces = what.sizes.size();
  SOAP_ASSIGN_OR_RETURN(const std::vector<TensorId> made,
                        c->Emit(c->OwnName(), what, {x.tensor}, pieces));
  x.tensor = made[begin > 0 ? 1 : 0];
  x.shape = c->ShapeOf(x.tensor);
  return x;
}

absl::Status GatherFromTensor(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue which, c->In(1));
  SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> index, c->IntegersIn(1));
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->ShapedIn(0));
  if (index.size() != 1) return Refuse("one index is supported");
  SOAP_ASSIGN_OR_RETURN(const size_t axis, SampleAxisOf(c->Int("axis", 0), x));
  SOAP_ASSIGN_OR_RETURN(const size_t at, AxisOf(index[0], static_cast<size_t>(x.shape[axis])));
  const auto begin = static_cast<int64_t>(at);
  SOAP_ASSIGN_OR_RETURN(OnnxValue y, Cut(c, x, axis, begin, begin + 1));
  if (IsScalar(which)) {
    y.shape.erase(y.shape.begin() + static_cast<std::ptrdiff_t>(axis));
    if (axis < y.batch_axis) --y.batch_axis;
  }
  c->SetOutput(0, std::move(y));
  return absl::OkStatus();
}

// Rows of a table, one place of a tensor, or one of integers.
absl::Status Gather(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue from, c->In(0));
  SOAP_ASSIGN_OR_RETURN(const OnnxValue which, c->In(1));
  if (from.sort == ValueSort::kTensor) return GatherFromTensor(c);
  if (which.sort == ValueSort::kTensor) return TranslateEmbedding(c);
  SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> integers, c->IntegersIn(0));
  SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> indexes, c->IntegersIn(1));
  std::vector<int64_t> taken;
  for (int64_t index : indexes) {
    SOAP_ASSIGN_OR_RETURN(const size_t at, AxisOf(index, integers.size()));
    taken.push_back(integers[at]);
  }
  return c->SetIntegers(std::move(taken), IsScalar(which));
}

// begin and end of a slice with step 1, as numpy counts them.
std::pair<int64_t, int64_t> Clamped(int64_t begin, int64_t end, int64_t size) {
  const auto clamp = [size](int64_t at) {
    if (at < 0) at = at < -size ? 0 : at + size;
    return std::min(at, size);
  };
  return {clamp(begin), clamp(end)};
}

absl::Status SliceIntegers(NodeContext* c, const std::vector<int64_t>& starts,
                           const std::vector<int64_t>& ends) {
  SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> all, c->IntegersIn(0));
  const auto [begin, end] = Clamped(starts[0], ends[0], static_cast<int64_t>(all.size()));
  std::vector<int64_t> cut;
  if (begin < end) cut.assign(all.begin() + begin, all.begin() + end);
  return c->SetIntegers(std::move(cut));
}

absl::Status Slice(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(OnnxValue x, c->In(0));
  if (x.sort == ValueSort::kZeros) return c->SetZeros();
  SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> starts,
                        c->IntegersOfAttributeOrInput("starts", 1));
  SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> ends, c->IntegersOfAttributeOrInput("ends", 2));
  SOAP_ASSIGN_OR_RETURN(std::vector<int64_t> axes, c->IntegersOfAttributeOrInput("axes", 3));
  if (axes.empty()) {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (starts.size() != 1 || ends.size() != 1 || axes.size() != 1) {
    return Refuse("one axis at a time is supported");
  }
  if (c->Has(4)) {
    SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, c->IntegersIn(4));
    if (steps != std::vector<int64_t>{1}) return Refuse("steps other than 1 are not supported");
  }
  if (IsIntegers(x)) return SliceIntegers(c, starts, ends);
  SOAP_ASSIGN_OR_RETURN(x, c->ShapedIn(0));
  SOAP_ASSIGN_OR_RETURN(const size_t axis, SampleAxisOf(axes[0], x));
  const auto [begin, end] = Clamped(starts[0], ends[0], x.shape[axis]);
  if (begin >= end) return Refuse("nothing of ", OnnxShapeText(OnnxShapeOf(x)), " is left");
  SOAP_ASSIGN_OR_RETURN(OnnxValue y, Cut(c, x, axis, begin, end));
  c->SetOutput(0, std::move(y));
  return absl::OkStatus();
}

absl::Status Split(NodeContext* c) {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->ShapedIn(0));
  SOAP_ASSIGN_OR_RETURN(const size_t axis, SampleAxisOf(c->Int("axis", 0), x));
  SOAP_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, c->IntegersOfAttributeOrInput("split", 1));
  const auto parts = static_cast<int64_t>(c->node().outputs.size());
  if (sizes.empty()) {  // equal ones, the last smaller if need be
    const int64_t each = (x.shape[axis] + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::min(each, x.shape[axis] - i * each));
  }
  if (static_cast<int64_t>(sizes.size()) != parts) {
    return Refuse("it has ", parts, " outputs and ", sizes.size(), " sizes");
  }
  const compute::Split what = {.axis = static_cast<int64_t>(axis) + 1, .sizes = sizes};
  SOAP_ASSIGN_OR_RETURN(const std::vector<TensorId> made,
                        c->Emit(c->OwnName(), what, {x.tensor}, sizes.size()));
  for (size_t i = 0; i < made.size(); ++i) {
    OnnxValue y = x;
    y.tensor = made[i];
    y.shape = c->ShapeOf(made[i]);
    c->SetOutput(i, std::move(y));
  }
  return absl::OkStatus();
}

constexpr std::array<Translation, 4> kPieces = {
    {{"Concat", Concat}, {"Gather", Gather}, {"Slice", Slice}, {"Split", Split}}};

}  // namespace

absl::Span<const Translation> PieceTranslations() { return kPieces; }

}  // namespace soapstone::models
