#include "models/graph/graph_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/sha256.h"
#include "compute/op_text.h"

namespace soapstone::models {
namespace {

std::string ShapeText(const Tensor& tensor) {
  return absl::StrCat("[", absl::StrJoin(tensor.shape, ","), "]");
}

// Which node of the drawing makes each tensor: an operator's, or the input's own.
std::vector<std::string> MakersOf(const Graph& graph) {
  std::vector<std::string> makers(graph.tensors().size());
  for (TensorId input : graph.inputs()) {
    makers[Index(input)] = absl::StrCat("in", Index(input));
  }
  for (size_t k = 0; k < graph.ops().size(); ++k) {
    for (TensorId out : graph.ops()[k].outputs) makers[Index(out)] = absl::StrCat("op", k);
  }
  return makers;
}

}  // namespace

std::string TextOf(const Graph& graph) {
  std::string text;
  for (TensorId id : graph.inputs()) {
    const Tensor& tensor = graph.tensor(id);
    absl::StrAppend(&text, tensor.name, " ", ShapeText(tensor),
                    tensor.type == DataType::kInt32 ? " i32\n" : " f32\n");
  }
  const auto name = [&](std::string* out, TensorId id) {
    absl::StrAppend(out, graph.tensor(id).name);
  };
  const auto shape = [&](std::string* out, TensorId id) {
    absl::StrAppend(out, ShapeText(graph.tensor(id)));
  };
  for (const Op& op : graph.ops()) {
    absl::StrAppend(&text, op.name, " = ", compute::TextOf(op.what), " of ",
                    absl::StrJoin(op.inputs, ", ", name), " -> ",
                    absl::StrJoin(op.outputs, ", ", shape), "\n");
  }
  return text;
}

std::string HashOf(const Graph& graph) {
  const std::string text = TextOf(graph);
  Sha256 sha;
  sha.Update(text.data(), text.size());
  return sha.HexDigest();
}

std::string DotOf(const Graph& graph) {
  std::string dot = absl::StrCat("digraph \"", graph.name(),
                                 "\" {\n  node [shape=box, fontname=\"sans-serif\"];\n");
  for (TensorId id : graph.inputs()) {
    const Tensor& tensor = graph.tensor(id);
    absl::StrAppend(&dot, "  in", Index(id), " [shape=ellipse, label=\"", tensor.name, "\\n",
                    ShapeText(tensor), "\"];\n");
  }
  const std::vector<std::string> makers = MakersOf(graph);
  for (size_t k = 0; k < graph.ops().size(); ++k) {
    const Op& op = graph.ops()[k];
    absl::StrAppend(&dot, "  op", k, " [label=\"", op.name, "\\n",
                    std::string(compute::NameOf(op.what)), "\"];\n");
    for (TensorId in : op.inputs) {
      absl::StrAppend(&dot, "  ", makers[Index(in)], " -> op", k, " [label=\"",
                      ShapeText(graph.tensor(in)), "\"];\n");
    }
  }
  return dot + "}\n";
}

}  // namespace soapstone::models
