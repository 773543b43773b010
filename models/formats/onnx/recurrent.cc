// LSTM: ONNX has gates in the order i, o, f, c, two biases, time before the batch, and an axis of
// directions; compute/op.h has i, f, g, o, their sum, the batch first, and one direction.
#include <algorithm>
#include <array>
#include <utility>

#include "base/status_macros.h"
#include "models/formats/onnx/importer.h"

namespace soapstone::models {
namespace {

constexpr std::array<size_t, 4> kGates = {0, 2, 3, 1};  // i, f, g, o among i, o, f, c

// Of one direction: [4H, columns] in our order of gates.
OnnxWeight GatesOf(const OnnxWeight& all, size_t direction, size_t offset, size_t hidden,
                   std::vector<int64_t> shape) {
  const size_t rows = 4 * hidden;
  const size_t columns = shape.size() == 2 ? static_cast<size_t>(shape[1]) : 1;
  OnnxWeight out = {std::move(shape), std::vector<float>(rows * columns)};
  const size_t directions = static_cast<size_t>(all.shape[0]);
  const float* from = all.values.data() + all.values.size() / directions * direction + offset;
  for (size_t gate = 0; gate < kGates.size(); ++gate) {
    std::copy_n(from + kGates[gate] * hidden * columns, hidden * columns,
                out.values.data() + gate * hidden * columns);
  }
  return out;
}

// Weights of all directions, checked against each other.
struct LstmWeights {
  OnnxWeight w, r, b;
  int64_t hidden = 0;

  std::vector<OnnxWeight> Of(size_t direction) const {
    const auto h = static_cast<size_t>(hidden);
    OnnxWeight bias = GatesOf(b, direction, 0, h, {4 * hidden});
    const OnnxWeight recurrent = GatesOf(b, direction, 4 * h, h, {4 * hidden});
    for (size_t i = 0; i < bias.values.size(); ++i) bias.values[i] += recurrent.values[i];
    return {GatesOf(w, direction, 0, h, {4 * hidden, w.shape[2]}),
            GatesOf(r, direction, 0, h, {4 * hidden, hidden}), std::move(bias)};
  }
};

absl::StatusOr<LstmWeights> WeightsOf(const NodeContext& c, int64_t directions) {
  LstmWeights all;
  SOAP_ASSIGN_OR_RETURN(all.w, c.WeightIn(1));
  SOAP_ASSIGN_OR_RETURN(all.r, c.WeightIn(2));
  if (all.r.shape.size() != 3 || all.w.shape.size() != 3) {
    return Refuse("W and R have to be of three dimensions");
  }
  all.hidden = all.r.shape[2];
  const std::vector<int64_t> of_r = {directions, 4 * all.hidden, all.hidden};
  const std::vector<int64_t> of_w = {directions, 4 * all.hidden, all.w.shape[2]};
  const std::vector<int64_t> of_b = {directions, 8 * all.hidden};
  all.b = {of_b, std::vector<float>(static_cast<size_t>(directions * 8 * all.hidden))};
  if (c.Has(3)) {
    SOAP_ASSIGN_OR_RETURN(all.b, c.WeightIn(3));
  }
  if (all.w.shape != of_w || all.r.shape != of_r || all.b.shape != of_b || all.hidden < 1) {
    return Refuse("weights W ", OnnxShapeText(all.w.shape), ", R ", OnnxShapeText(all.r.shape),
                  " and B ", OnnxShapeText(all.b.shape), " do not fit each other with ", directions,
                  " direction(s)");
  }
  return all;
}

bool AllZero(const OnnxValue& value) {
  if (value.sort == ValueSort::kZeros) return true;
  if (value.sort != ValueSort::kConstant) return false;
  const absl::StatusOr<std::vector<float>> values = FloatsOf(*value.constant);
  return values.ok() && std::all_of(values->begin(), values->end(), [](float v) { return v == 0; });
}

absl::Status CheckLstm(const NodeContext& c) {
  if (c.Find("activations") != nullptr) {
    const char* const kDefault[] = {"Sigmoid", "Tanh", "Tanh"};
    size_t i = 0;
    for (absl::string_view name : c.Find("activations")->strings) {
      if (name != kDefault[i++ % 3]) return Refuse("other activations than the default");
    }
  }
  if (c.Find("clip") != nullptr) return Refuse("clip is not supported");
  if (c.Int("input_forget", 0) != 0) return Refuse("input_forget is not supported");
  if (c.Has(7)) return Refuse("peepholes (input P) are not supported");
  if (c.IsRead(2)) return Refuse("its last cell state (Y_c) is not given out");
  for (size_t i : {5u, 6u}) {
    if (!c.Has(i)) continue;
    SOAP_ASSIGN_OR_RETURN(const OnnxValue value, c.In(i));
    if (!AllZero(value)) return Refuse("a first state other than zero is not supported");
  }
  return absl::OkStatus();
}

// y: [N, T, H] of one direction → its last step, [N, 1, H].
absl::StatusOr<TensorId> LastStep(NodeContext* c, TensorId y, bool reverse) {
  const int64_t steps = c->ShapeOf(y)[0];
  if (steps == 1) return y;
  const compute::Split what = {.axis = 1,
                               .sizes = {reverse ? 1 : steps - 1, reverse ? steps - 1 : 1}};
  SOAP_ASSIGN_OR_RETURN(const std::vector<TensorId> parts,
                        c->Emit(c->OwnName() + ".last", what, {y}, 2));
  return parts[reverse ? 0 : 1];
}

absl::StatusOr<TensorId> Join(NodeContext* c, const std::string& name, int64_t axis,
                              const std::vector<TensorId>& parts) {
  if (parts.size() == 1) return parts[0];
  SOAP_ASSIGN_OR_RETURN(const std::vector<TensorId> made,
                        c->Emit(name, compute::Concat{.axis = axis}, parts));
  return made[0];
}

absl::Status Lstm(NodeContext* c) {
  SOAP_RETURN_IF_ERROR(CheckLstm(*c));
  SOAP_ASSIGN_OR_RETURN(const OnnxValue x, c->ShapedIn(0));
  const bool batch_first = c->Int("layout", 0) != 0;
  if (x.shape.size() != 2 || x.batch_axis != (batch_first ? 0u : 1u)) {
    return Refuse("its input has to be ", batch_first ? "[N, T, D]" : "[T, N, D]", ", not ",
                  OnnxShapeText(OnnxShapeOf(x)));
  }
  if (c->Has(4)) return Refuse("sequences of different lengths are not supported");
  const std::string direction = c->Text("direction", "forward");
  const bool both = direction == "bidirectional";
  if (!both && direction != "forward" && direction != "reverse") {
    return Refuse("direction ", direction, " is none");
  }
  SOAP_ASSIGN_OR_RETURN(const LstmWeights all, WeightsOf(*c, both ? 2 : 1));
  const std::string name = c->OwnName();
  std::vector<TensorId> sequences, lasts;
  for (size_t d = 0; d < (both ? 2u : 1u); ++d) {
    const bool reverse = both ? d == 1 : direction == "reverse";
    const compute::Lstm what = {.hidden = all.hidden, .reverse = reverse};
    SOAP_ASSIGN_OR_RETURN(
        const std::vector<TensorId> made,
        c->Emit(d == 0 ? name : name + ".reverse", what, {x.tensor}, 1, all.Of(d)));
    sequences.push_back(made[0]);
    if (!c->IsRead(1)) continue;
    SOAP_ASSIGN_OR_RETURN(const TensorId last, LastStep(c, made[0], reverse));
    lasts.push_back(last);
  }
  const auto directions = static_cast<int64_t>(sequences.size());
  if (c->IsRead(0)) {  // [T, directions, N, H] or [N, T, directions, H]
    SOAP_ASSIGN_OR_RETURN(const TensorId y, Join(c, name + ".join", 2, sequences));
    c->SetOutput(0, {.tensor = y,
                     .shape = {x.shape[0], directions, all.hidden},
                     .batch_axis = batch_first ? 0u : 2u});
  }
  if (c->IsRead(1)) {  // [directions, N, H] or [N, directions, H]
    SOAP_ASSIGN_OR_RETURN(const TensorId h, Join(c, name + ".join_last", 1, lasts));
    c->SetOutput(
        1, {.tensor = h, .shape = {directions, all.hidden}, .batch_axis = batch_first ? 0u : 1u});
  }
  return absl::OkStatus();
}

constexpr std::array<Translation, 1> kRecurrent = {{{"LSTM", Lstm}}};

}  // namespace

absl::Span<const Translation> RecurrentTranslations() { return kRecurrent; }

}  // namespace soapstone::models
