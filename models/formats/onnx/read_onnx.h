// Reads a model from an ONNX file: the graph, ended with the loss, and the values that the file has
// for its parameters. Called where a job is made. docs/import.md says what is read and how.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/graph/graph.h"

namespace soapstone::models {

struct OnnxModel {
  Graph graph;
  std::vector<std::vector<float>> values;  // by ParamId
  std::string sha256;                      // of the file
};

// The operators that are read, as ONNX calls them, in alphabetical order.
std::vector<std::string> OnnxOperators();

// Errors, each one line that begins with the file's name: NotFound; InvalidArgument where it is no
// ONNX file or damaged, or has an operator or a use of one that is not supported: the node, the
// operator and what is.
absl::StatusOr<OnnxModel> ReadOnnx(const std::string& path);

// The same, of a file's bytes; `name` stands for it in errors.
absl::StatusOr<OnnxModel> OnnxFromBytes(absl::string_view bytes, const std::string& name);

}  // namespace soapstone::models
