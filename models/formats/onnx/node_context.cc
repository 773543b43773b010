// One node while it is translated: its attributes and inputs, and the operators that it becomes.
#include <utility>

#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "models/formats/onnx/importer.h"

namespace soapstone::models {
namespace {

constexpr size_t kIntegersMax = 64;  // elements of a shape, or of indexes

}  // namespace

const OnnxAttribute* NodeContext::Find(absl::string_view name) const {
  for (const OnnxAttribute& attribute : node_.attributes) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

int64_t NodeContext::Int(absl::string_view name, int64_t without) const {
  const OnnxAttribute* attribute = Find(name);
  return attribute == nullptr ? without : attribute->i;
}

double NodeContext::Float(absl::string_view name, double without) const {
  const OnnxAttribute* attribute = Find(name);
  return attribute == nullptr ? without : static_cast<double>(attribute->f);
}

std::string NodeContext::Text(absl::string_view name, absl::string_view without) const {
  const OnnxAttribute* attribute = Find(name);
  return CleanText(attribute == nullptr ? without : attribute->s);
}

std::vector<int64_t> NodeContext::Ints(absl::string_view name,
                                       const std::vector<int64_t>& without) const {
  const OnnxAttribute* attribute = Find(name);
  return attribute == nullptr ? without : attribute->integers;
}

bool NodeContext::IsRead(size_t output) const {
  return output < node_.outputs.size() && importer_.readers_.contains(node_.outputs[output]);
}

absl::StatusOr<OnnxValue> NodeContext::ValueOf(absl::string_view name) const {
  const auto it = importer_.values_.find(name);
  if (it != importer_.values_.end()) return it->second;
  return Refuse("it reads '", CleanText(name), "', which nothing before it makes");
}

absl::StatusOr<OnnxValue> NodeContext::In(size_t input) const {
  if (!Has(input)) return Refuse("input ", input, " is missing");
  return ValueOf(node_.inputs[input]);
}

absl::StatusOr<OnnxValue> NodeContext::TensorIn(size_t input) const {
  SOAP_ASSIGN_OR_RETURN(OnnxValue value, In(input));
  if (value.sort == ValueSort::kTensor) return value;
  return Refuse("input '", CleanText(node_.inputs[input]),
                "' is a constant; it has to depend on the model's input");
}

absl::StatusOr<OnnxValue> NodeContext::ShapedIn(size_t input) {
  SOAP_ASSIGN_OR_RETURN(OnnxValue value, TensorIn(input));
  value.tensor = importer_.Shaped(value.tensor, value.shape);
  SOAP_RETURN_IF_ERROR(importer_.builder_.status());
  return value;
}

absl::StatusOr<OnnxValue> NodeContext::BatchFirstIn(size_t input) {
  SOAP_ASSIGN_OR_RETURN(OnnxValue value, ShapedIn(input));
  if (value.batch_axis == 0) return value;
  return Refuse("the batch is axis ", value.batch_axis, " of its input; it has to be axis 0");
}

absl::StatusOr<std::vector<int64_t>> NodeContext::IntegersIn(size_t input) const {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue value, In(input));
  if (value.sort == ValueSort::kIntegers) return value.integers;
  if (value.sort == ValueSort::kConstant && value.constant->dims.size() <= 1) {
    SOAP_ASSIGN_OR_RETURN(std::vector<int64_t> integers, IntegersOf(*value.constant));
    if (integers.size() <= kIntegersMax) return integers;
  }
  return Refuse("input '", CleanText(node_.inputs[input]), "' has to be a constant of at most ",
                kIntegersMax, " integers");
}

absl::StatusOr<std::vector<int64_t>> NodeContext::IntegersOfAttributeOrInput(
    absl::string_view attribute, size_t input) const {
  if (const OnnxAttribute* given = Find(attribute)) {
    if (given->integers.size() <= kIntegersMax) return given->integers;
    return Refuse(CleanText(attribute), " has more than ", kIntegersMax, " integers");
  }
  if (Has(input)) return IntegersIn(input);
  return std::vector<int64_t>();
}

absl::StatusOr<OnnxWeight> NodeContext::WeightIn(size_t input) const {
  SOAP_ASSIGN_OR_RETURN(const OnnxValue value, In(input));
  if (value.sort != ValueSort::kConstant) {
    return Refuse("input '", CleanText(node_.inputs[input]),
                  "' has to be a constant: weights that are computed are not supported");
  }
  // Before the values are taken from the file.
  SOAP_ASSIGN_OR_RETURN(const int64_t elements, ElementsOf(value.constant->dims));
  if (elements == 0) return Refuse("weight '", CleanText(node_.inputs[input]), "' is empty");
  importer_.weight_elements_ += static_cast<uint64_t>(elements);
  if (importer_.weight_elements_ > importer_.weight_elements_max_) {
    return Refuse("so many nodes share weights that the model has more than twice the file's size");
  }
  SOAP_ASSIGN_OR_RETURN(std::vector<float> values, FloatsOf(*value.constant));
  return OnnxWeight{value.constant->dims, std::move(values)};
}

std::string NodeContext::NameFrom(size_t weight_input) const {
  if (weight_input < node_.inputs.size()) {
    absl::string_view name = node_.inputs[weight_input];
    if ((absl::ConsumeSuffix(&name, ".weight") || absl::ConsumeSuffix(&name, ".bias")) &&
        !name.empty()) {
      return CleanText(name);
    }
  }
  const std::string own = CleanText(node_.name.empty() ? node_.outputs[0] : node_.name);
  return own.empty() ? "op" : own;
}

const OnnxNode* NodeContext::NextIs(absl::string_view op_type) const {
  const absl::string_view output = last_->outputs[0];
  const auto count = importer_.readers_.find(output);
  const auto reader = importer_.reader_.find(output);
  if (count == importer_.readers_.end() || count->second != 1 ||
      reader == importer_.reader_.end()) {
    return nullptr;
  }
  const OnnxNode& next = importer_.file_.nodes[reader->second];
  const bool own = next.domain.empty() || next.domain == "ai.onnx";
  return own && next.op_type == op_type && !next.outputs.empty() ? &next : nullptr;
}

const OnnxNode* NodeContext::Absorb(absl::string_view op_type) {
  const OnnxNode* next = NextIs(op_type);
  if (next == nullptr || next->outputs[0].empty()) return nullptr;
  importer_.folded_[static_cast<size_t>(next - importer_.file_.nodes.data())] = true;
  last_ = next;
  return next;
}

absl::StatusOr<std::vector<TensorId>> NodeContext::Emit(const std::string& name,
                                                        compute::Operator what,
                                                        std::vector<TensorId> inputs,
                                                        size_t outputs,
                                                        std::vector<OnnxWeight> weights) {
  std::vector<TensorId> made = importer_.builder_.ApplyAll(importer_.Unique(name), std::move(what),
                                                           std::move(inputs), outputs);
  SOAP_RETURN_IF_ERROR(importer_.builder_.status());
  // Before the next operator makes a product of it: a file can double a tensor with every node.
  for (TensorId tensor : made) SOAP_RETURN_IF_ERROR(ElementsOf(ShapeOf(tensor)).status());
  for (OnnxWeight& weight : weights) {
    importer_.weights_.push_back(std::move(weight));
    importer_.weight_nodes_.push_back(NodeText(node_));
  }
  return made;
}

absl::Status NodeContext::EmitOutput(const std::string& name, compute::Operator what,
                                     std::vector<TensorId> inputs, const OnnxValue& like,
                                     std::vector<OnnxWeight> weights) {
  SOAP_ASSIGN_OR_RETURN(const std::vector<TensorId> made,
                        Emit(name, std::move(what), std::move(inputs), 1, std::move(weights)));
  OnnxValue value = like;
  value.tensor = made[0];
  value.shape = ShapeOf(made[0]);
  SetOutput(0, std::move(value));
  return absl::OkStatus();
}

void NodeContext::SetOutput(size_t output, OnnxValue value) {
  if (output < last_->outputs.size()) importer_.values_[last_->outputs[output]] = std::move(value);
}

absl::Status NodeContext::SetIntegers(std::vector<int64_t> integers, bool scalar) {
  constexpr size_t kComputedMax = 64;  // a file can double them with every node
  if (integers.size() > kComputedMax) {
    return Refuse("more than ", kComputedMax, " integers computed while reading");
  }
  OnnxValue value = {.sort = ValueSort::kIntegers};
  value.integers = std::move(integers);
  value.scalar = scalar;
  SetOutput(0, std::move(value));
  return absl::OkStatus();
}

absl::Status NodeContext::SetZeros() {
  SetOutput(0, {.sort = ValueSort::kZeros});
  return absl::OkStatus();
}

bool IsIntegers(const OnnxValue& value) {
  return value.sort == ValueSort::kIntegers ||
         (value.sort == ValueSort::kConstant && value.constant->data_type != kOnnxFloat &&
          value.constant->data_type != kOnnxFloat16 && value.constant->data_type != kOnnxBfloat16);
}

bool IsScalar(const OnnxValue& value) {
  if (value.sort == ValueSort::kIntegers) return value.scalar;
  return value.sort == ValueSort::kConstant && value.constant->dims.empty();
}

}  // namespace soapstone::models
