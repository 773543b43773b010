#include "models/runtime/model_input.h"

#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace soapstone::models {
namespace {

std::string FieldText(std::string_view name, bool is_float, const std::vector<int64_t>& shape) {
  return absl::StrCat(std::string(name), " [", absl::StrJoin(shape, ", "), "] ",
                      is_float ? "float32" : "int32");
}

// "image [1, 8, 8] float32, label [] int32"
std::string TextOf(const std::vector<FieldSpec>& fields) {
  return absl::StrJoin(fields, ", ", [](std::string* out, const FieldSpec& field) {
    absl::StrAppend(out, FieldText(field.name, field.is_float, field.shape));
  });
}

std::string InputsText(const Graph& graph) {
  return absl::StrJoin(graph.inputs(), ", ", [&](std::string* out, TensorId id) {
    const Tensor& tensor = graph.tensor(id);
    absl::StrAppend(out, FieldText(tensor.name, tensor.type == DataType::kFloat32, tensor.shape));
  });
}

// A flat vector may be taken as one: a file's model has [D] where data without a height have
// [1, 1, D].
bool SameShape(const std::vector<int64_t>& shape, const FieldSpec& field) {
  const std::vector<int64_t>& has = field.shape;
  return shape == has || (has.size() == 3 && has[0] == 1 && has[1] == 1 && shape.size() == 1 &&
                          shape[0] == has[2] && field.is_float);
}

// Tokens must be rows of the tables that are read by them.
absl::Status CheckTokens(const Graph& graph, const Dataset& data) {
  for (const Op& op : graph.ops()) {
    const auto* embedding = std::get_if<compute::Embedding>(&op.what);
    if (embedding == nullptr) continue;
    for (size_t f = 0; f < graph.inputs().size(); ++f) {
      if (graph.inputs()[f] != op.inputs[0]) continue;
      const int64_t limit = data.columns[f]->limit();
      if (limit <= embedding->rows) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          graph.name(), ": '", op.name, "' has ", embedding->rows, " rows; the data's ",
          graph.tensor(op.inputs[0]).name, " has numbers up to ", limit - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace

ModelInput ModelInputOf(const TrainTest& data) {
  const std::vector<FieldSpec> fields = data.train.fields();
  ModelInput input = {.classes = data.train.classes};
  if (fields[0].is_float && fields.size() > 2) {
    for (size_t f = 1; f + 1 < fields.size(); ++f) {
      input.categories.push_back(data.train.columns[f]->limit());
    }
    return input;
  }
  if (fields[0].is_float) {
    const ImageShape& shape = data.train.shape;
    input.image = {shape.channels, shape.height, shape.width};
    return input;
  }
  const bool named = !data.vocabularies.empty() && !data.vocabularies[0].empty();
  input.vocabulary = named ? static_cast<int64_t>(data.vocabularies[0].size()) : data.train.classes;
  input.source_steps = fields[0].shape[0];
  input.steps = fields.size() > 2 ? fields[1].shape[0] : fields[0].shape[0];
  return input;
}

absl::Status CheckFields(const Graph& graph, const Dataset& data) {
  const std::vector<FieldSpec> fields = data.fields();
  bool same = fields.size() == graph.inputs().size();
  for (size_t f = 0; same && f < fields.size(); ++f) {
    const Tensor& tensor = graph.tensor(graph.inputs()[f]);
    same = (tensor.type == DataType::kFloat32) == fields[f].is_float &&
           SameShape(tensor.shape, fields[f]);
  }
  if (same) return CheckTokens(graph, data);
  return absl::InvalidArgumentError(absl::StrCat(
      graph.name(), " takes samples of ", InputsText(graph), "; the data have ", TextOf(fields)));
}

std::vector<const void*> FieldsOf(const MiniBatch& feed) {
  std::vector<const void*> fields;
  fields.reserve(feed.fields.size());
  for (const std::vector<std::byte>& field : feed.fields) fields.push_back(field.data());
  return fields;
}

}  // namespace soapstone::models
