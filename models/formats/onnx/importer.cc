#include "models/formats/onnx/importer.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "models/formats/onnx/read_onnx.h"

namespace soapstone::models {
namespace {

constexpr int64_t kOpsetMin = 7, kOpsetMax = 22;

const Translation* FindTranslation(absl::string_view op_type) {
  for (const auto& table : {LayerTranslations(), PlainTranslations(), RecurrentTranslations(),
                            PieceTranslations(), ShapeTranslations()}) {
    for (const Translation& translation : table) {
      if (op_type == translation.op_type) return &translation;
    }
  }
  return nullptr;
}

absl::Status Unsupported() {
  return Refuse("this operator is not supported; supported: ",
                absl::StrJoin(OnnxOperators(), ", "));
}

}  // namespace

std::vector<std::string> OnnxOperators() {
  std::vector<std::string> names;
  for (const auto& table : {LayerTranslations(), PlainTranslations(), RecurrentTranslations(),
                            PieceTranslations(), ShapeTranslations()}) {
    for (const Translation& translation : table) names.emplace_back(translation.op_type);
  }
  names.insert(names.end(), {"LogSoftmax (last)", "Softmax (last)"});
  std::sort(names.begin(), names.end());
  return names;
}

// Weights are at most twice the file's elements and a bit: some files share equal ones, but a file
// cannot have them multiplied without end.
Importer::Importer(const OnnxFile& file, const std::string& name)
    : file_(file),
      builder_(name),
      needed_(file.nodes.size()),
      folded_(file.nodes.size()),
      weight_elements_max_(uint64_t{1} << 20) {
  for (const OnnxTensor& tensor : file.initializers) {
    weight_elements_max_ +=
        2 * (tensor.raw.size() / 2 + tensor.floats.size() + tensor.integers.size());
  }
}

absl::Status Importer::Run() {
  if (file_.opset < kOpsetMin || file_.opset > kOpsetMax) {
    return Refuse("opset ", file_.opset, " is not supported; ", kOpsetMin, " to ", kOpsetMax,
                  " are");
  }
  SOAP_RETURN_IF_ERROR(FindMakers());
  SOAP_RETURN_IF_ERROR(FindNeeded());
  for (const OnnxTensor& tensor : file_.initializers) {
    OnnxValue value = {.sort = ValueSort::kConstant};
    value.constant = &tensor;
    values_[tensor.name] = std::move(value);
  }
  SOAP_RETURN_IF_ERROR(AddInputs());
  for (size_t i = 0; i < file_.nodes.size(); ++i) {
    if (!needed_[i] || folded_[i]) continue;
    const absl::Status status = Translate(i);
    if (!status.ok()) return Refuse(NodeText(file_.nodes[i]), ": ", status.message());
  }
  return AddLoss();
}

absl::Status Importer::FindMakers() {
  for (size_t i = 0; i < file_.nodes.size(); ++i) {
    for (absl::string_view output : file_.nodes[i].outputs) {
      if (output.empty() || makers_.emplace(output, i).second) continue;
      return Refuse(NodeText(file_.nodes[i]), ": another node writes '", CleanText(output),
                    "' too");
    }
  }
  if (file_.outputs.size() == 1) {
    logits_ = file_.outputs[0].name;
  } else {
    return Refuse("a model with ", file_.outputs.size(),
                  " outputs; one is supported, the logits of a classifier");
  }
  // A softmax at the end is the loss's own. Chains of such ends are no longer than the nodes are.
  for (size_t i = 0; i < file_.nodes.size(); ++i) {
    const auto maker = makers_.find(logits_);
    if (maker == makers_.end()) break;
    const OnnxNode& node = file_.nodes[maker->second];
    const bool softmax = node.op_type == "Softmax" || node.op_type == "LogSoftmax";
    if ((!softmax && node.op_type != "Identity") || node.inputs.empty()) break;
    logits_ = node.inputs[0];
  }
  return absl::OkStatus();
}

absl::Status Importer::FindNeeded() {
  std::vector<absl::string_view> wanted = {logits_};
  ++readers_[logits_];
  while (!wanted.empty()) {
    const auto maker = makers_.find(wanted.back());
    wanted.pop_back();
    if (maker == makers_.end() || needed_[maker->second]) continue;
    needed_[maker->second] = true;
    for (absl::string_view input : file_.nodes[maker->second].inputs) {
      if (input.empty()) continue;
      ++readers_[input];
      reader_[input] = maker->second;
      wanted.push_back(input);
    }
  }
  return absl::OkStatus();
}

absl::Status Importer::AddInputs() {
  for (const OnnxInput& input : file_.inputs) {
    // Older files list their initializers here too.
    if (values_.contains(input.name) || !readers_.contains(input.name)) continue;
    const absl::Status status = AddInput(input);
    if (!status.ok()) return Refuse("input '", CleanText(input.name), "': ", status.message());
  }
  return absl::OkStatus();
}

absl::Status Importer::AddInput(const OnnxInput& input) {
  if (input.type != kOnnxFloat && input.type != kOnnxInt64 && input.type != kOnnxInt32) {
    return Refuse("element type ", input.type,
                  "; float (1), int64 (7) and int32 (6) are supported");
  }
  if (input.dims.empty()) return Refuse("it has no batch dimension");
  OnnxValue value;
  for (size_t i = 1; i < input.dims.size(); ++i) {
    const OnnxInput::Dim& dim = input.dims[i];
    if (!dim.known) {
      return Refuse("dimension ", i, " ('", CleanText(dim.symbol),
                    "') has no size; only the first, the batch, may be without one");
    }
    value.shape.push_back(dim.size);
  }
  if (input.dims[0].known && input.dims[0].size > 0) batch_ = input.dims[0].size;
  SOAP_RETURN_IF_ERROR(ElementsOf(value.shape).status());
  value.tensor =
      builder_.Input(CleanText(input.name),
                     input.type == kOnnxFloat ? DataType::kFloat32 : DataType::kInt32, value.shape);
  values_[input.name] = std::move(value);
  return builder_.status();
}

absl::Status Importer::Translate(size_t index) {
  const OnnxNode& node = file_.nodes[index];
  const bool own = node.domain.empty() || node.domain == "ai.onnx";
  const Translation* translation = own ? FindTranslation(node.op_type) : nullptr;
  if (translation == nullptr) return Unsupported();
  if (node.outputs.empty()) return Refuse("it has no output");
  NodeContext context(this, index);
  SOAP_RETURN_IF_ERROR(translation->translate(&context));
  return builder_.status();
}

absl::Status Importer::AddLoss() {
  const auto it = values_.find(logits_);
  if (it == values_.end() || it->second.sort != ValueSort::kTensor) {
    return Refuse("output '", CleanText(logits_), "': no node and no input makes it");
  }
  const OnnxValue& logits = it->second;
  if (logits.batch_axis != 0) {
    return Refuse("output '", CleanText(logits_), "': the batch is its axis ", logits.batch_axis,
                  "; it has to be axis 0");
  }
  builder_.Loss(Unique("loss"), Shaped(logits.tensor, logits.shape));
  return builder_.status();
}

absl::StatusOr<Graph> Importer::Build() {
  SOAP_ASSIGN_OR_RETURN(Graph graph, builder_.Build());
  for (size_t i = 0; i < weights_.size(); ++i) {
    const ParamSpec& param = graph.params()[i];
    if (param.shape == weights_[i].shape) continue;
    return Refuse(weight_nodes_[i], ": ", param.name, " has shape ",
                  OnnxShapeText(weights_[i].shape), " in the file, ", OnnxShapeText(param.shape),
                  " by what the node reads");
  }
  return graph;
}

std::vector<std::vector<float>> Importer::TakeValues() {
  std::vector<std::vector<float>> values;
  for (OnnxWeight& weight : weights_) values.push_back(std::move(weight.values));
  return values;
}

std::string Importer::Unique(const std::string& wanted) {
  for (;;) {
    const size_t taken = names_[wanted]++;
    if (taken == 0) return wanted;
    std::string other = absl::StrCat(wanted, "_", taken + 1);
    if (names_.emplace(other, 1).second) return other;
  }
}

TensorId Importer::Shaped(TensorId tensor, const std::vector<int64_t>& shape) {
  if (builder_.shape(tensor) == shape) return tensor;
  const auto [it, inserted] = shaped_.try_emplace({soapstone::models::Index(tensor), shape});
  if (inserted) {
    it->second = builder_.Apply(Unique("reshape"), compute::Reshape{.shape = shape}, {tensor});
  }
  return it->second;
}

std::string NodeText(const OnnxNode& node) {
  const absl::string_view output = node.outputs.empty() ? "" : node.outputs[0];
  return absl::StrCat("node '", CleanText(node.name.empty() ? output : node.name), "' (",
                      CleanText(node.op_type), ")");
}

absl::StatusOr<size_t> AxisOf(int64_t axis, size_t rank) {
  const auto all = static_cast<int64_t>(rank);
  if (axis >= -all && axis < all) return static_cast<size_t>(axis < 0 ? axis + all : axis);
  return Refuse("axis ", axis, " is none of ", rank);
}

absl::StatusOr<size_t> SampleAxisOf(int64_t axis, const OnnxValue& value) {
  SOAP_ASSIGN_OR_RETURN(const size_t found, AxisOf(axis, value.rank()));
  if (found == value.batch_axis) return Refuse("axis ", axis, " is the batch");
  return found < value.batch_axis ? found : found - 1;
}

std::vector<int64_t> OnnxShapeOf(const OnnxValue& value) {
  std::vector<int64_t> shape = value.shape;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(value.batch_axis), kBatch);
  return shape;
}

std::string OnnxShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[",
                      absl::StrJoin(shape, ", ",
                                    [](std::string* out, int64_t d) {
                                      absl::StrAppend(out, d == kBatch ? "N" : absl::StrCat(d));
                                    }),
                      "]");
}

}  // namespace soapstone::models
