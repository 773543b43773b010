// An ONNX file's messages as values (https://github.com/onnx/onnx, onnx.proto): those fields that
// the importer asks for. Names and weights are views into the file's bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace soapstone::models {

// TensorProto.DataType, those that can be read.
enum OnnxType : int64_t {
  kOnnxFloat = 1,
  kOnnxInt32 = 6,
  kOnnxInt64 = 7,
  kOnnxFloat16 = 10,
  kOnnxBfloat16 = 16,
};

struct OnnxTensor {
  absl::string_view name;
  std::vector<int64_t> dims;
  int64_t data_type = 0;
  bool has_raw = false;
  absl::string_view raw;          // little-endian
  std::vector<float> floats;      // without raw
  std::vector<int64_t> integers;  // without raw; of float16 its bits
  bool external = false;          // the values are in another file
};

struct OnnxAttribute {
  absl::string_view name;
  float f = 0;
  int64_t i = 0;
  absl::string_view s;
  bool has_tensor = false;
  OnnxTensor tensor;
  std::vector<float> floats;
  std::vector<int64_t> integers;
  std::vector<absl::string_view> strings;
};

struct OnnxNode {
  absl::string_view name;
  absl::string_view op_type;
  absl::string_view domain;
  std::vector<absl::string_view> inputs;  // "": left out
  std::vector<absl::string_view> outputs;
  std::vector<OnnxAttribute> attributes;
};

struct OnnxInput {
  struct Dim {
    bool known = false;
    int64_t size = 0;
    absl::string_view symbol;
  };
  absl::string_view name;
  int64_t type = 0;
  std::vector<Dim> dims;
};

struct OnnxFile {
  int64_t opset = 0;  // of ONNX's own operators; 0: not given
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxInput> inputs;
  std::vector<OnnxInput> outputs;
};

// bytes: the whole file; has to outlive what is returned. Error: InvalidArgument, "damaged at byte
// N" for what is no such file.
absl::StatusOr<OnnxFile> ParseOnnx(absl::string_view bytes);

// The number of elements of such a shape; an error if some dimension is negative or they are more
// than 2^40.
absl::StatusOr<int64_t> ElementsOf(const std::vector<int64_t>& dims);

// The values of a tensor. Errors: values in another file, another type, not as many as its shape.
absl::StatusOr<std::vector<float>> FloatsOf(const OnnxTensor& tensor);
absl::StatusOr<std::vector<int64_t>> IntegersOf(const OnnxTensor& tensor);

// Text from a file, fit for messages, names and JSON: printable ASCII, at most 200 characters.
std::string CleanText(absl::string_view text);

}  // namespace soapstone::models
