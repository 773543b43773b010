// What the translations of single operators (layers.cc, plain_operators.cc, recurrent.cc,
// shapes.cc) work with: what a name of the file stands for, and the graph as far as it is. Inside
// models/formats/onnx.
//
// ONNX lets the batch be any axis and computes shapes by operators; here the batch is first and
// shapes are fixed. So a Value remembers where ONNX sees the batch, and a shape of its own that
// becomes a Reshape only when something needs it; integers that are computed from shapes are
// computed while reading, with kBatch for the batch.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "models/formats/onnx/onnx_file.h"
#include "models/graph/graph.h"

namespace soapstone::models {

inline constexpr int64_t kBatch = INT64_MIN + 1;

enum class ValueSort : uint8_t {
  kTensor,    // of the graph
  kConstant,  // from the file
  kIntegers,  // known while reading
  kZeros,     // of any shape: a recurrent layer's first state
};

struct OnnxValue {
  ValueSort sort = ValueSort::kTensor;
  TensorId tensor{};
  std::vector<int64_t> shape;  // kTensor: of one sample, in ONNX's order without the batch
  size_t batch_axis = 0;       // kTensor: where ONNX sees the batch; at most shape.size()
  const OnnxTensor* constant = nullptr;
  std::vector<int64_t> integers;
  bool scalar = false;  // kIntegers: of rank 0

  size_t rank() const { return shape.size() + 1; }
};

// A parameter's value, and the shape that the file gives it.
struct OnnxWeight {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

template <class... Args>
absl::Status Refuse(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

class Importer {
 public:
  Importer(const OnnxFile& file, const std::string& name);

  // Translates what the output needs, and appends the loss. Errors name the node.
  absl::Status Run();
  absl::StatusOr<Graph> Build();
  std::vector<std::vector<float>> TakeValues();

 private:
  friend class NodeContext;

  absl::Status FindMakers();
  absl::Status FindNeeded();
  absl::Status AddInputs();
  absl::Status AddInput(const OnnxInput& input);
  absl::Status Translate(size_t node);
  absl::Status AddLoss();
  std::string Unique(const std::string& wanted);
  TensorId Shaped(TensorId tensor, const std::vector<int64_t>& shape);

  const OnnxFile& file_;
  GraphBuilder builder_;
  absl::flat_hash_map<absl::string_view, size_t> makers_;   // by output: its node
  absl::flat_hash_map<absl::string_view, size_t> readers_;  // how often needed nodes read a name
  absl::flat_hash_map<absl::string_view, size_t> reader_;   // the last of them
  std::vector<bool> needed_;                                // by node
  std::vector<bool> folded_;                                // by node: done with an earlier one
  absl::string_view logits_;
  absl::flat_hash_map<absl::string_view, OnnxValue> values_;
  absl::flat_hash_map<std::string, size_t> names_;  // of operators: how often taken
  std::map<std::pair<size_t, std::vector<int64_t>>, TensorId> shaped_;
  std::vector<OnnxWeight> weights_;        // by ParamId
  std::vector<std::string> weight_nodes_;  // by ParamId, for errors
  uint64_t weight_elements_ = 0;
  uint64_t weight_elements_max_ = 0;
  int64_t batch_ = 0;  // where the file gives a number for it
};

// One node while it is translated.
class NodeContext {
 public:
  NodeContext(Importer* importer, size_t index)
      : importer_(*importer), node_(importer->file_.nodes[index]), last_(&node_) {}

  const OnnxNode& node() const { return node_; }
  int64_t opset() const { return importer_.file_.opset; }
  int64_t batch() const { return importer_.batch_; }

  // Attributes; what stands behind the name is for files without.
  const OnnxAttribute* Find(absl::string_view name) const;
  int64_t Int(absl::string_view name, int64_t without) const;
  double Float(absl::string_view name, double without) const;
  std::string Text(absl::string_view name, absl::string_view without) const;
  std::vector<int64_t> Ints(absl::string_view name, const std::vector<int64_t>& without) const;

  bool Has(size_t input) const {
    return input < node_.inputs.size() && !node_.inputs[input].empty();
  }
  // Whether something reads this output.
  bool IsRead(size_t output) const;
  absl::StatusOr<OnnxValue> In(size_t input) const;
  // An input that has to be a tensor of the graph.
  absl::StatusOr<OnnxValue> TensorIn(size_t input) const;
  // The same, with its own shape in memory; the batch may be anywhere.
  absl::StatusOr<OnnxValue> ShapedIn(size_t input);
  // The same; the batch has to be axis 0.
  absl::StatusOr<OnnxValue> BatchFirstIn(size_t input);
  // An input that has to be known: a constant of few integers, or what was computed.
  absl::StatusOr<std::vector<int64_t>> IntegersIn(size_t input) const;
  // Integers that are an attribute up to some opset and an input from there on; empty if neither.
  absl::StatusOr<std::vector<int64_t>> IntegersOfAttributeOrInput(absl::string_view attribute,
                                                                  size_t input) const;
  // An input that has to be float values of the file.
  absl::StatusOr<OnnxWeight> WeightIn(size_t input) const;
  // The name that an input's initializer has in the file, for the operator: "conv1" of
  // "conv1.weight"; else the node's name, else its output's.
  std::string NameFrom(size_t weight_input) const;
  std::string OwnName() const { return NameFrom(SIZE_MAX); }

  // If the one thing that reads the node's output is a node of this operator: takes that on, so
  // that its output becomes this node's, and returns it. Null otherwise.
  const OnnxNode* Absorb(absl::string_view op_type);
  const OnnxNode* NextIs(absl::string_view op_type) const;
  bool AbsorbRelu() { return Absorb("Relu") != nullptr; }
  absl::StatusOr<OnnxValue> ValueOf(absl::string_view name) const;

  // Adds an operator with the values of its parameters, in their order.
  absl::StatusOr<std::vector<TensorId>> Emit(const std::string& name, compute::Operator what,
                                             std::vector<TensorId> inputs, size_t outputs = 1,
                                             std::vector<OnnxWeight> weights = {});
  // Adds an operator that has one output; it becomes the node's, its batch where `like` has it.
  absl::Status EmitOutput(const std::string& name, compute::Operator what,
                          std::vector<TensorId> inputs, const OnnxValue& like,
                          std::vector<OnnxWeight> weights = {});
  const std::vector<int64_t>& ShapeOf(TensorId tensor) const {
    return importer_.builder_.shape(tensor);
  }
  // Whether its elements are integers.
  bool IsWhole(TensorId tensor) const {
    return importer_.builder_.type(tensor) == DataType::kInt32;
  }

  void SetOutput(size_t output, OnnxValue value);
  // As output 0, what is known while reading. Error: too many.
  absl::Status SetIntegers(std::vector<int64_t> integers, bool scalar = false);
  absl::Status SetZeros();

 private:
  Importer& importer_;
  const OnnxNode& node_;
  const OnnxNode* last_;  // whose outputs are made: the node, or the last one taken on
};

// Integers that are known: computed, or a constant of an integer type.
bool IsIntegers(const OnnxValue& value);
// Of rank 0, as far as that is known.
bool IsScalar(const OnnxValue& value);
// An axis as the file counts it, from the end if negative. Error: it is none of the value's.
absl::StatusOr<size_t> AxisOf(int64_t axis, size_t rank);
// The axis of the sample's shape (batch left out). Error: none, or the batch.
absl::StatusOr<size_t> SampleAxisOf(int64_t axis, const OnnxValue& value);
// ONNX's shape: the sample's with kBatch where the batch is.
std::vector<int64_t> OnnxShapeOf(const OnnxValue& value);
// For messages: "[N, 3, 8]"; "node 'conv1' (Conv)".
std::string OnnxShapeText(const std::vector<int64_t>& shape);
std::string NodeText(const OnnxNode& node);

struct Translation {
  const char* op_type;
  absl::Status (*translate)(NodeContext* c);
};
// By file; together, all operators that are read.
absl::Span<const Translation> LayerTranslations();
absl::Span<const Translation> PlainTranslations();
absl::Span<const Translation> RecurrentTranslations();
absl::Span<const Translation> PieceTranslations();
absl::Span<const Translation> ShapeTranslations();
// Gather with a table of weights. In layers.cc, called from pieces.cc, which has the other Gathers.
absl::Status TranslateEmbedding(NodeContext* c);

}  // namespace soapstone::models
