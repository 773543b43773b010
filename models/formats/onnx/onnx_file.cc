#include "models/formats/onnx/onnx_file.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "models/formats/half_float.h"
#include "models/formats/onnx/wire_reader.h"

namespace soapstone::models {
namespace {

constexpr int64_t kOnnxElementsMax = int64_t{1} << 40;

// Reads messages of known nesting, each by a function of its own: a file cannot make it recurse.
class Parser {
 public:
  explicit Parser(absl::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<OnnxFile> File() {
    OnnxFile file;
    WireReader reader(bytes_);
    WireField field;
    while (reader.Next(&field)) {
      if (field.number == 7) Graph(field, &file);
      if (field.number == 8) OperatorSet(field, &file);
    }
    End(reader);
    if (damage_ == nullptr) return file;
    return absl::InvalidArgumentError(
        absl::StrCat("no ONNX file, or a part of one: damaged at byte ", damage_ - bytes_.data(),
                     " of ", bytes_.size()));
  }

 private:
  void End(const WireReader& reader) {
    if (!reader.ok() && damage_ == nullptr) damage_ = reader.position();
  }
  // The message in a field. What should be a message and is none is damage.
  WireReader Inside(const WireField& field, WireType type = WireType::kBytes) {
    if (field.type == type) return WireReader(field.bytes);
    if (damage_ == nullptr) damage_ = bytes_.data();
    return WireReader({});
  }
  static absl::string_view Text(const WireField& field) {
    return field.type == WireType::kBytes ? field.bytes : absl::string_view();
  }
  static int64_t Number(const WireField& field) { return static_cast<int64_t>(field.value); }
  static float Float(uint32_t bits) {
    float f = 0;
    std::memcpy(&f, &bits, sizeof(f));
    return f;
  }

  // Repeated numbers come one by one or packed in a run.
  void Numbers(const WireField& field, std::vector<int64_t>* out) {
    if (field.type == WireType::kVarint) return out->push_back(Number(field));
    WireReader reader = Inside(field);
    uint64_t value = 0;
    while (reader.NextVarint(&value)) out->push_back(static_cast<int64_t>(value));
    End(reader);
  }
  void Floats(const WireField& field, std::vector<float>* out) {
    if (field.type == WireType::kFixed32) {
      return out->push_back(Float(static_cast<uint32_t>(field.value)));
    }
    WireReader reader = Inside(field);
    uint32_t bits = 0;
    while (reader.NextFixed32(&bits)) out->push_back(Float(bits));
    End(reader);
  }

  void OperatorSet(const WireField& in, OnnxFile* file) {
    WireReader reader = Inside(in);
    WireField field;
    absl::string_view domain;
    int64_t version = 0;
    while (reader.Next(&field)) {
      if (field.number == 1) domain = Text(field);
      if (field.number == 2) version = Number(field);
    }
    End(reader);
    if (domain.empty() || domain == "ai.onnx") file->opset = version;
  }

  void Graph(const WireField& in, OnnxFile* file) {
    WireReader reader = Inside(in);
    WireField field;
    while (reader.Next(&field)) {
      if (field.number == 1) file->nodes.push_back(Node(field));
      if (field.number == 5) file->initializers.push_back(Tensor(field));
      if (field.number == 11) file->inputs.push_back(Input(field));
      if (field.number == 12) file->outputs.push_back(Input(field));
    }
    End(reader);
  }

  OnnxNode Node(const WireField& in) {
    OnnxNode node;
    WireReader reader = Inside(in);
    WireField field;
    while (reader.Next(&field)) {
      if (field.number == 1) node.inputs.push_back(Text(field));
      if (field.number == 2) node.outputs.push_back(Text(field));
      if (field.number == 3) node.name = Text(field);
      if (field.number == 4) node.op_type = Text(field);
      if (field.number == 5) node.attributes.push_back(Attribute(field));
      if (field.number == 7) node.domain = Text(field);
    }
    End(reader);
    return node;
  }

  OnnxAttribute Attribute(const WireField& in) {
    OnnxAttribute attribute;
    WireReader reader = Inside(in);
    WireField field;
    while (reader.Next(&field)) {
      if (field.number == 1) attribute.name = Text(field);
      if (field.number == 2) attribute.f = Float(static_cast<uint32_t>(field.value));
      if (field.number == 3) attribute.i = Number(field);
      if (field.number == 4) attribute.s = Text(field);
      if (field.number == 5) {
        attribute.tensor = Tensor(field);
        attribute.has_tensor = true;
      }
      if (field.number == 7) Floats(field, &attribute.floats);
      if (field.number == 8) Numbers(field, &attribute.integers);
      if (field.number == 9) attribute.strings.push_back(Text(field));
    }
    End(reader);
    return attribute;
  }

  OnnxTensor Tensor(const WireField& in) {
    OnnxTensor tensor;
    WireReader reader = Inside(in);
    WireField field;
    while (reader.Next(&field)) {
      if (field.number == 1) Numbers(field, &tensor.dims);
      if (field.number == 2) tensor.data_type = Number(field);
      if (field.number == 4) Floats(field, &tensor.floats);
      if (field.number == 5 || field.number == 7) Numbers(field, &tensor.integers);
      if (field.number == 8) tensor.name = Text(field);
      if (field.number == 9) {
        tensor.raw = Text(field);
        tensor.has_raw = true;
      }
      if (field.number == 14) tensor.external = Number(field) == 1;
    }
    End(reader);
    return tensor;
  }

  // ValueInfoProto, its TypeProto and that one's TypeProto.Tensor.
  OnnxInput Input(const WireField& in) {
    OnnxInput input;
    WireReader reader = Inside(in);
    WireField field;
    while (reader.Next(&field)) {
      if (field.number == 1) input.name = Text(field);
      if (field.number != 2) continue;
      WireReader type = Inside(field);
      WireField tensor_type;
      while (type.Next(&tensor_type)) {
        if (tensor_type.number == 1) TensorType(tensor_type, &input);
      }
      End(type);
    }
    End(reader);
    return input;
  }

  void TensorType(const WireField& in, OnnxInput* input) {
    WireReader reader = Inside(in);
    WireField field;
    while (reader.Next(&field)) {
      if (field.number == 1) input->type = Number(field);
      if (field.number != 2) continue;
      WireReader shape = Inside(field);
      WireField dim;
      while (shape.Next(&dim)) {
        if (dim.number == 1) input->dims.push_back(Dim(dim));
      }
      End(shape);
    }
    End(reader);
  }

  OnnxInput::Dim Dim(const WireField& in) {
    OnnxInput::Dim dim;
    WireReader reader = Inside(in);
    WireField field;
    while (reader.Next(&field)) {
      if (field.number == 1) dim = {.known = true, .size = Number(field)};
      if (field.number == 2) dim = {.symbol = Text(field)};
    }
    End(reader);
    return dim;
  }

  const absl::string_view bytes_;
  const char* damage_ = nullptr;  // the first
};

absl::Status CheckValues(const OnnxTensor& tensor, size_t have, size_t item, const char* unit) {
  SOAP_ASSIGN_OR_RETURN(const int64_t elements, ElementsOf(tensor.dims));
  if (have == static_cast<size_t>(elements) * item) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor '", CleanText(tensor.name), "' of shape [", absl::StrJoin(tensor.dims, ", "),
      "] needs ", static_cast<size_t>(elements) * item, " ", unit, ", the file has ", have));
}

absl::Status CheckPlace(const OnnxTensor& tensor) {
  if (!tensor.external) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor '", CleanText(tensor.name),
                   "' is kept in another file (external data): save the model as one file"));
}

absl::Status NoSuchType(const OnnxTensor& tensor, const char* wanted) {
  return absl::InvalidArgumentError(absl::StrCat("tensor '", CleanText(tensor.name),
                                                 "' has element type ", tensor.data_type, ", not ",
                                                 wanted));
}

template <class T>
std::vector<T> Items(absl::string_view raw) {
  std::vector<T> items(raw.size() / sizeof(T));
  if (!items.empty()) std::memcpy(items.data(), raw.data(), items.size() * sizeof(T));
  return items;
}

float FromBits(int64_t type, uint16_t bits) {
  return type == kOnnxFloat16 ? FloatOfHalf(bits) : FloatOfBfloat16(bits);
}

}  // namespace

absl::StatusOr<OnnxFile> ParseOnnx(absl::string_view bytes) { return Parser(bytes).File(); }

absl::StatusOr<int64_t> ElementsOf(const std::vector<int64_t>& dims) {
  int64_t elements = 1;
  for (int64_t d : dims) {
    if (d < 0 || d > kOnnxElementsMax || (d > 0 && elements > kOnnxElementsMax / d)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a tensor of shape [", absl::StrJoin(dims, ", "), "] is impossible"));
    }
    elements *= d;
  }
  return elements;
}

absl::StatusOr<std::vector<float>> FloatsOf(const OnnxTensor& tensor) {
  SOAP_RETURN_IF_ERROR(CheckPlace(tensor));
  if (tensor.data_type == kOnnxFloat) {
    if (tensor.has_raw) {
      SOAP_RETURN_IF_ERROR(CheckValues(tensor, tensor.raw.size(), sizeof(float), "bytes"));
      return Items<float>(tensor.raw);
    }
    SOAP_RETURN_IF_ERROR(CheckValues(tensor, tensor.floats.size(), 1, "values"));
    return tensor.floats;
  }
  if (tensor.data_type != kOnnxFloat16 && tensor.data_type != kOnnxBfloat16) {
    return NoSuchType(tensor, "float (1), float16 (10) or bfloat16 (16)");
  }
  std::vector<float> values;
  if (tensor.has_raw) {
    SOAP_RETURN_IF_ERROR(CheckValues(tensor, tensor.raw.size(), sizeof(uint16_t), "bytes"));
    for (uint16_t bits : Items<uint16_t>(tensor.raw)) {
      values.push_back(FromBits(tensor.data_type, bits));
    }
    return values;
  }
  SOAP_RETURN_IF_ERROR(CheckValues(tensor, tensor.integers.size(), 1, "values"));
  for (int64_t bits : tensor.integers) {
    values.push_back(FromBits(tensor.data_type, static_cast<uint16_t>(bits)));
  }
  return values;
}

absl::StatusOr<std::vector<int64_t>> IntegersOf(const OnnxTensor& tensor) {
  SOAP_RETURN_IF_ERROR(CheckPlace(tensor));
  if (tensor.data_type != kOnnxInt64 && tensor.data_type != kOnnxInt32) {
    return NoSuchType(tensor, "int64 (7) or int32 (6)");
  }
  if (!tensor.has_raw) {
    SOAP_RETURN_IF_ERROR(CheckValues(tensor, tensor.integers.size(), 1, "values"));
    return tensor.integers;
  }
  if (tensor.data_type == kOnnxInt64) {
    SOAP_RETURN_IF_ERROR(CheckValues(tensor, tensor.raw.size(), sizeof(int64_t), "bytes"));
    return Items<int64_t>(tensor.raw);
  }
  SOAP_RETURN_IF_ERROR(CheckValues(tensor, tensor.raw.size(), sizeof(int32_t), "bytes"));
  const std::vector<int32_t> items = Items<int32_t>(tensor.raw);
  return std::vector<int64_t>(items.begin(), items.end());
}

std::string CleanText(absl::string_view text) {
  constexpr size_t kLengthMax = 200;
  std::string clean(text.substr(0, kLengthMax));
  for (char& c : clean) {
    if (c <= ' ' || c > '~' || c == '\'' || c == '"' || c == '\\') c = '_';
  }
  return clean;
}

}  // namespace soapstone::models
