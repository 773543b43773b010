#include "models/formats/onnx/read_onnx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "models/formats/onnx/onnx_bytes.h"
#include "models/formats/onnx/onnx_file.h"

namespace soapstone::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using compute::Operator;

// 0, 1, 2, ..
std::vector<float> Count(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

// One operator on x [N, dims..], and what makes logits of its output z of `features` a sample.
OnnxParts Around(const ProtoBytes& node, const std::vector<int64_t>& dims, int64_t features,
                 const std::vector<ProtoBytes>& initializers = {}) {
  OnnxParts parts;
  parts.nodes = {node, OnnxNodeBytes("Flatten", {"z"}, {"flat"}),
                 OnnxNodeBytes("Gemm", {"flat", "fc.weight"}, {"y"}, {OnnxInt("transB", 1)})};
  parts.initializers = initializers;
  parts.initializers.push_back(
      OnnxFloats("fc.weight", {2, features}, Count(static_cast<size_t>(2 * features))));
  parts.inputs = {OnnxInputBytes("x", dims)};
  return parts;
}

OnnxModel Read(const OnnxParts& parts) {
  absl::StatusOr<OnnxModel> model = OnnxFromBytes(parts.Bytes(), "m.onnx");
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : OnnxModel();
}

std::string ErrorOf(const OnnxParts& parts) {
  const auto model = OnnxFromBytes(parts.Bytes(), "m.onnx");
  return std::string(model.status().message());
}

// The operator that the node of such a graph became.
Operator First(const OnnxParts& parts) {
  const OnnxModel model = Read(parts);
  return model.graph.ops().empty() ? Operator() : model.graph.ops()[0].what;
}

// conv → relu → pool → flatten → fc with its weight not transposed → softmax
OnnxParts SmallNet() {
  OnnxParts parts;
  parts.nodes = {
      OnnxNodeBytes(
          "Conv", {"x", "conv1.weight", "conv1.bias"}, {"a"},
          {OnnxInts("kernel_shape", {3, 3}), OnnxInts("pads", {1, 1, 1, 1}),
           OnnxInts("strides", {1, 1}), OnnxInts("dilations", {1, 1}), OnnxInt("group", 1)}),
      OnnxNodeBytes("Relu", {"a"}, {"b"}),
      OnnxNodeBytes("MaxPool", {"b"}, {"c"},
                    {OnnxInts("kernel_shape", {2, 2}), OnnxInts("strides", {2, 2})}),
      OnnxNodeBytes("Shape", {"c"}, {"s"}),
      OnnxNodeBytes("Constant", {}, {"zero"}, {OnnxInt("value_int", 0)}),
      OnnxNodeBytes("Gather", {"s", "zero"}, {"n"}, {OnnxInt("axis", 0)}),
      OnnxNodeBytes("Unsqueeze", {"n", "axes"}, {"n1"}),
      OnnxNodeBytes("Concat", {"n1", "rest"}, {"shape"}, {OnnxInt("axis", 0)}),
      OnnxNodeBytes("Reshape", {"c", "shape"}, {"d"}),
      OnnxNodeBytes("Gemm", {"d", "fc.weight", "fc.bias"}, {"e"}),
      OnnxNodeBytes("Softmax", {"e"}, {"y"}),
  };
  parts.initializers = {OnnxFloats("conv1.weight", {2, 1, 3, 3}, Count(18)),
                        OnnxFloats("conv1.bias", {2}, {7, 8}),
                        OnnxIntegers("axes", {1}, {0}),
                        OnnxIntegers("rest", {1}, {-1}),
                        OnnxFloats("fc.weight", {8, 3}, Count(24)),
                        OnnxFloats("fc.bias", {3}, {1, 2, 3})};
  parts.inputs = {OnnxInputBytes("x", {1, 4, 4})};
  return parts;
}

TEST(ReadOnnx, GraphParametersAndValues) {
  const OnnxModel model = Read(SmallNet());
  const Graph& graph = model.graph;
  ASSERT_EQ(graph.ops().size(), 5u);
  EXPECT_EQ(graph.ops()[0].what,
            Operator(compute::Conv2d{
                .channels = 2, .window = compute::Window::Square(3, 1, 1), .relu = true}));
  EXPECT_EQ(graph.ops()[1].what, Operator(compute::Pool{.window = compute::Window::Square(2, 2)}));
  EXPECT_EQ(graph.ops()[2].what, Operator(compute::Reshape{.shape = {8}}));
  EXPECT_EQ(graph.ops()[3].what, Operator(compute::Linear{.outputs = 3}));
  EXPECT_EQ(graph.ops()[4].what, Operator(compute::SoftmaxCrossEntropy{}));
  EXPECT_EQ(graph.tensor(graph.input()).name, "x");
  EXPECT_EQ(graph.tensor(graph.input()).shape, (std::vector<int64_t>{1, 4, 4}));
  std::vector<std::string> names;
  for (const ParamSpec& param : graph.params()) names.push_back(param.name);
  EXPECT_THAT(names, ElementsAre("conv1.weight", "conv1.bias", "fc.weight", "fc.bias"));
  ASSERT_EQ(model.values.size(), 4u);
  EXPECT_EQ(model.values[0], Count(18));
  EXPECT_THAT(model.values[1], ElementsAre(7, 8));
  EXPECT_THAT(std::vector<float>(model.values[2].begin(), model.values[2].begin() + 8),
              ElementsAre(0, 3, 6, 9, 12, 15, 18, 21));  // transposed
  EXPECT_EQ(model.sha256.size(), 64u);
}

TEST(ReadOnnx, AttributesOfSingleOperators) {
  EXPECT_EQ(
      First(Around(OnnxNodeBytes("LRN", {"x"}, {"z"},
                                 {OnnxInt("size", 3), OnnxFloatAttribute("alpha", 0.5),
                                  OnnxFloatAttribute("beta", 0.25), OnnxFloatAttribute("bias", 2)}),
                   {4, 1, 1}, 4)),
      Operator(compute::LocalResponseNorm{.size = 3, .alpha = 0.5, .beta = 0.25, .k = 2}));
  EXPECT_EQ(First(Around(OnnxNodeBytes("Gelu", {"x"}, {"z"}), {4}, 4)),
            Operator(compute::Activation{.kind = compute::ActivationKind::kGelu}));
  EXPECT_EQ(First(Around(OnnxNodeBytes("GlobalAveragePool", {"x"}, {"z"}), {4, 3, 2}, 4)),
            Operator(compute::Reduce{.axes = {2, 3}}));
  EXPECT_EQ(First(Around(OnnxNodeBytes("ReduceSum", {"x", "axes"}, {"z"}, {OnnxInt("keepdims", 0)}),
                         {4, 3, 2}, 8, {OnnxIntegers("axes", {1}, {-2})})),
            Operator(compute::Reduce{.kind = compute::ReduceKind::kSum, .axes = {2}}));
  for (const bool count : {false, true}) {
    EXPECT_EQ(First(Around(
                  OnnxNodeBytes("AveragePool", {"x"}, {"z"},
                                {OnnxInts("kernel_shape", {3, 3}), OnnxInts("pads", {1, 1, 1, 1}),
                                 OnnxInt("count_include_pad", count ? 1 : 0)}),
                  {1, 3, 3}, 9)),
              Operator(compute::Pool{.kind = compute::PoolKind::kAverage,
                                     .window = compute::Window::Square(3, 1, 1),
                                     .count_padding = count}));
  }
  EXPECT_EQ(First(Around(OnnxNodeBytes("Dropout", {"x", "r"}, {"z"}), {4}, 4,
                         {OnnxFloats("r", {}, {0.25})})),
            Operator(compute::Dropout{.rate = 0.25}));
}

TEST(ReadOnnx, BatchNormalisationKeepsTheShareThatOnnxReplaces) {
  const OnnxModel model = Read(Around(
      OnnxNodeBytes("BatchNormalization", {"x", "bn.weight", "b", "m", "v"}, {"z"},
                    {OnnxFloatAttribute("momentum", 0.75), OnnxFloatAttribute("epsilon", 0.5)}),
      {2, 1, 1}, 2,
      {OnnxFloats("bn.weight", {2}, {1, 2}), OnnxFloats("b", {2}, {3, 4}),
       OnnxFloats("m", {2}, {5, 6}), OnnxFloats("v", {2}, {7, 8})}));
  EXPECT_EQ(model.graph.ops()[0].what,
            Operator(compute::BatchNorm{.epsilon = 0.5, .momentum = 0.25}));
  EXPECT_EQ(model.graph.params()[2].name, "bn.running_mean");
  EXPECT_THAT(model.values[2], ElementsAre(5, 6));
  EXPECT_THAT(model.values[3], ElementsAre(7, 8));
}

// Gates i, o, f, c of one unit with one feature, and two biases each.
TEST(ReadOnnx, LstmHasItsGatesInOurOrder) {
  OnnxParts parts;
  parts.nodes = {
      OnnxNodeBytes("Transpose", {"x"}, {"t"}, {OnnxInts("perm", {1, 0, 2})}),
      OnnxNodeBytes("LSTM", {"t", "W", "R", "B"}, {"", "h"}, {OnnxInt("hidden_size", 1)}),
      OnnxNodeBytes("Squeeze", {"h", "axes"}, {"s"}), OnnxNodeBytes("MatMul", {"s", "V"}, {"p"}),
      OnnxNodeBytes("Add", {"fc.bias", "p"}, {"y"})};
  parts.initializers = {OnnxFloats("W", {1, 4, 1}, {1, 2, 3, 4}),
                        OnnxFloats("R", {1, 4, 1}, {5, 6, 7, 8}),
                        OnnxFloats("B", {1, 8}, {10, 20, 30, 40, 1, 2, 3, 4}),
                        OnnxFloats("V", {1, 2}, {9, 8}),
                        OnnxFloats("fc.bias", {2}, {1, 2}),
                        OnnxIntegers("axes", {1}, {0})};
  parts.inputs = {OnnxInputBytes("x", {5, 1})};
  const OnnxModel model = Read(parts);
  ASSERT_EQ(model.values.size(), 5u);
  EXPECT_EQ(model.graph.ops()[0].what, Operator(compute::Lstm{.hidden = 1}));
  EXPECT_EQ(model.graph.ops()[1].what, Operator(compute::Split{.axis = 1, .sizes = {4, 1}}));
  EXPECT_THAT(model.values[0], ElementsAre(1, 3, 4, 2));
  EXPECT_THAT(model.values[1], ElementsAre(5, 7, 8, 6));
  EXPECT_THAT(model.values[2], ElementsAre(11, 33, 44, 22));
  EXPECT_EQ(model.graph.params()[3].name, "fc.weight");
  EXPECT_THAT(model.values[4], ElementsAre(1, 2));
}

TEST(ReadOnnx, RowsOfATableByIds) {
  OnnxParts parts = Around(OnnxNodeBytes("Gather", {"embed.weight", "ids"}, {"z"}), {3}, 6,
                           {OnnxFloats("embed.weight", {5, 2}, Count(10))});
  parts.nodes.insert(parts.nodes.begin(),
                     OnnxNodeBytes("Cast", {"x"}, {"ids"}, {OnnxInt("to", 6)}));
  parts.inputs = {OnnxInputBytes("x", {3}, 7)};
  const OnnxModel model = Read(parts);
  EXPECT_EQ(model.graph.ops()[0].what, Operator(compute::Embedding{.rows = 5, .dim = 2}));
  EXPECT_EQ(model.graph.tensor(model.graph.input()).type, DataType::kInt32);
  EXPECT_EQ(model.graph.params()[0].name, "embed.weight");
}

TEST(ReadOnnx, WeightsThatTwoNodesReadBecomeTwoParameters) {
  OnnxParts parts;
  parts.nodes = {OnnxNodeBytes("MatMul", {"x", "w"}, {"a"}),
                 OnnxNodeBytes("MatMul", {"a", "w"}, {"y"})};
  parts.initializers = {OnnxFloats("w", {2, 2}, Count(4))};
  parts.inputs = {OnnxInputBytes("x", {2})};
  const OnnxModel model = Read(parts);
  ASSERT_EQ(model.graph.params().size(), 2u);
  EXPECT_EQ(model.graph.params()[0].name, "MatMul_0.weight");
  EXPECT_EQ(model.graph.params()[1].name, "MatMul_0_2.weight");
}

TEST(ReadOnnx, NodesThatTheOutputDoesNotNeedAreNotRead) {
  OnnxParts parts = SmallNet();
  parts.nodes.insert(parts.nodes.begin(), OnnxNodeBytes("Erf", {"x"}, {"unused"}));
  EXPECT_EQ(Read(parts).graph.ops().size(), 5u);
}

TEST(ReadOnnx, UnknownOperatorsAreNamedWithWhatIsSupported) {
  EXPECT_THAT(ErrorOf(Around(OnnxNodeBytes("Erf", {"x"}, {"z"}), {4}, 4)),
              HasSubstr("m.onnx: node 'Erf_0' (Erf): this operator is not supported; supported: "
                        "Add, AveragePool, BatchNormalization, "));
  ProtoBytes foreign = OnnxNodeBytes("Relu", {"x"}, {"z"});
  foreign.Text(7, "com.example");
  EXPECT_THAT(ErrorOf(Around(foreign, {4}, 4)),
              HasSubstr("(Relu): this operator is not supported"));
}

TEST(ReadOnnx, UsesThatAreNotSupportedAreNamed) {
  const auto conv = [](const ProtoBytes& attribute) {
    return ErrorOf(Around(OnnxNodeBytes("Conv", {"x", "w"}, {"z"}, {attribute}), {1, 4, 4}, 4,
                          {OnnxFloats("w", {1, 1, 3, 3}, Count(9))}));
  };
  EXPECT_EQ(conv(OnnxInts("pads", {0, 1, 1, 1})),
            "m.onnx: node 'Conv_0' (Conv): pads [0, 1, 1, 1] differ between opposite sides");
  EXPECT_THAT(conv(OnnxInts("dilations", {2, 2})), HasSubstr("dilations other than 1"));
  EXPECT_THAT(conv(OnnxText("auto_pad", "SAME_UPPER")), HasSubstr("auto_pad SAME_UPPER"));
  EXPECT_THAT(conv(OnnxInts("strides", {1, 0})), HasSubstr("strides has 0"));
  EXPECT_THAT(conv(OnnxInt("group", 2)), HasSubstr("do not divide into groups of 2"));
  EXPECT_THAT(ErrorOf(Around(OnnxNodeBytes("Reshape", {"x", "s"}, {"z"}), {4}, 4,
                             {OnnxIntegers("s", {1}, {-1})})),
              HasSubstr("from [N, 4] to [-1]: the batch has to stay an axis of its own"));
  EXPECT_THAT(ErrorOf(Around(OnnxNodeBytes("Gelu", {"x"}, {"z"}, {OnnxText("approximate", "tanh")}),
                             {4}, 4)),
              HasSubstr("approximate tanh"));
  EXPECT_THAT(
      ErrorOf(Around(OnnxNodeBytes("LRN", {"x"}, {"z"}, {OnnxInt("size", 4)}), {4, 1, 1}, 4)),
      HasSubstr("a window of an even size, 4"));
  EXPECT_THAT(ErrorOf(Around(OnnxNodeBytes("Add", {"x", "w"}, {"z"}), {4}, 4,
                             {OnnxFloats("w", {2}, {1, 2})})),
              HasSubstr("a constant of shape [2] cannot be added to [N, 4]"));
}

TEST(ReadOnnx, FilesThatAreNoModelsForThisAreRefused) {
  OnnxParts parts = SmallNet();
  parts.opset = 3;
  EXPECT_EQ(ErrorOf(parts), "m.onnx: opset 3 is not supported; 7 to 22 are");
  parts = SmallNet();
  parts.outputs.emplace_back("e");
  EXPECT_THAT(ErrorOf(parts), HasSubstr("a model with 2 outputs; one is supported"));
  parts = SmallNet();
  parts.outputs = {"nobody"};
  EXPECT_EQ(ErrorOf(parts), "m.onnx: output 'nobody': no node and no input makes it");
  parts = SmallNet();
  parts.inputs = {OnnxInputBytes("x", {1, -1, 4})};
  EXPECT_THAT(ErrorOf(parts), HasSubstr("input 'x': dimension 2 ('time') has no size"));
  parts = SmallNet();
  parts.inputs = {OnnxInputBytes("other", {1, 4, 4})};
  EXPECT_EQ(ErrorOf(parts),
            "m.onnx: node 'Conv_0' (Conv): it reads 'x', which nothing before it makes");
  EXPECT_EQ(std::string(ReadOnnx("/nowhere/m.onnx").status().message()),
            "/nowhere/m.onnx: No such file or directory");
}

TEST(ReadOnnx, WeightsHaveToFit) {
  OnnxParts parts = SmallNet();
  parts.initializers[0] = OnnxFloats("conv1.weight", {2, 2, 3, 3}, Count(36));
  EXPECT_EQ(ErrorOf(parts),
            "m.onnx: node 'Conv_0' (Conv): conv1.weight has shape [2, 2, 3, 3] in the file, "
            "[2, 1, 3, 3] by what the node reads");
  parts.initializers[0] = OnnxFloats("conv1.weight", {2, 1, 3, 3}, Count(17));
  EXPECT_EQ(ErrorOf(parts),
            "m.onnx: node 'Conv_0' (Conv): tensor 'conv1.weight' of shape [2, 1, 3, 3] needs 72 "
            "bytes, the file has 68");
  parts.initializers[0] = OnnxFloats("conv1.weight", {2, 1, 3, int64_t{1} << 62}, Count(18));
  EXPECT_THAT(ErrorOf(parts), HasSubstr("is impossible"));
  parts.initializers[0] = OnnxFloats("conv1.weight", {2, 1, 3, 0}, {});
  EXPECT_THAT(ErrorOf(parts), HasSubstr("weight 'conv1.weight' is empty"));
  parts.initializers[0] = OnnxFloats("conv1.weight", {2, 1, 3, 3}, Count(18));
  parts.initializers[0].Number(14, 1);
  EXPECT_THAT(ErrorOf(parts), HasSubstr("is kept in another file (external data)"));
}

TEST(ReadOnnx, WeightsOfSixteenBitsAreConverted) {
  OnnxParts parts = SmallNet();
  parts.initializers[1] = ProtoBytes()
                              .Number(1, 2)
                              .Number(2, kOnnxFloat16)
                              .Text(8, "conv1.bias")
                              .Text(9, std::string("\x00\x3c\x00\xc0", 4));
  EXPECT_THAT(Read(parts).values[1], ElementsAre(1, -2));
}

TEST(ReadOnnx, AnyLengthOfAFileIsAnErrorAndNoCrash) {
  const std::string whole = SmallNet().Bytes();
  ASSERT_TRUE(OnnxFromBytes(whole, "m").ok());
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::string part = whole.substr(0, length);  // of its own, so that no byte is behind it
    const auto model = OnnxFromBytes(part, "m");
    ASSERT_FALSE(model.ok()) << length;
    ASSERT_THAT(std::string(model.status().message()),
                testing::StartsWith("m: no ONNX file, or a part of one"));
  }
}

TEST(ReadOnnx, AnyByteOfAFileMayBeWrong) {
  OnnxParts lstm;
  lstm.nodes = {OnnxNodeBytes("LSTM", {"x", "W", "R", "B"}, {"a", "h"}, {OnnxInt("layout", 1)}),
                OnnxNodeBytes("Gather", {"a", "last"}, {"b"}, {OnnxInt("axis", 1)}),
                OnnxNodeBytes("Flatten", {"b"}, {"c"}),
                OnnxNodeBytes("Slice", {"c", "last", "end", "last"}, {"y"})};
  lstm.initializers = {OnnxFloats("W", {1, 8, 1}, Count(8)), OnnxFloats("R", {1, 8, 2}, Count(16)),
                       OnnxFloats("B", {1, 16}, Count(16)), OnnxIntegers("last", {1}, {-1}),
                       OnnxIntegers("end", {1}, {9})};
  lstm.inputs = {OnnxInputBytes("x", {5, 1})};
  lstm.nodes.pop_back();
  lstm.outputs = {"c"};
  ASSERT_TRUE(OnnxFromBytes(lstm.Bytes(), "m").ok()) << ErrorOf(lstm);
  size_t refused = 0;
  for (const std::string& whole : {SmallNet().Bytes(), lstm.Bytes()}) {
    for (size_t at = 0; at < whole.size(); ++at) {
      for (const int mask : {0x01, 0x02, 0x10, 0x7f, 0x80, 0xff}) {
        std::string bytes = whole;
        bytes[at] = static_cast<char>(bytes[at] ^ mask);
        refused += OnnxFromBytes(bytes, "m").ok() ? 0 : 1;
      }
    }
  }
  EXPECT_GT(refused, 500u);
}

TEST(ReadOnnx, TextOfAFileIsMadeFitForALine) {
  EXPECT_EQ(CleanText(absl::string_view("a\n\x01'\xff/b", 7)), "a____/b");
  EXPECT_EQ(CleanText(std::string(1000, 'x')).size(), 200u);
}

}  // namespace
}  // namespace soapstone::models
