#include "models/graph.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(GraphBuilder* b) { return std::string(b->Build().status().message()); }

Graph SmallGraph() {
  GraphBuilder b("small", {2, 6, 6});
  TensorId x = b.Relu("relu", b.Conv2d("conv", b.input(), 4, {.size = 3, .padding = 1}));
  x = b.Flatten("flatten", b.MaxPool("pool", x, {.size = 2, .stride = 2}));
  b.SoftmaxCrossEntropy("loss", b.Linear("fc", x, 5));
  return *b.Build();
}

TEST(Graph, InfersShapes) {
  const Graph graph = SmallGraph();
  const auto shape = [&](size_t op) { return graph.tensor(graph.ops()[op].output).shape; };
  EXPECT_THAT(shape(0), ElementsAre(4, 6, 6));
  EXPECT_THAT(shape(1), ElementsAre(4, 6, 6));
  EXPECT_THAT(shape(2), ElementsAre(4, 3, 3));
  EXPECT_THAT(shape(3), ElementsAre(36));
  EXPECT_THAT(shape(4), ElementsAre(5));
  EXPECT_THAT(shape(5), ElementsAre());
  EXPECT_EQ(graph.classes(), 5);
}

TEST(Graph, NumbersParametersInOrderWeightBeforeBias) {
  const Graph graph = SmallGraph();
  std::vector<std::string> names;
  for (const ParamSpec& param : graph.params()) names.push_back(param.name);
  EXPECT_THAT(names, ElementsAre("conv.weight", "conv.bias", "fc.weight", "fc.bias"));
  EXPECT_THAT(graph.param(ParamId{0}).shape, ElementsAre(4, 2, 3, 3));
  EXPECT_THAT(graph.param(ParamId{2}).shape, ElementsAre(5, 36));
  EXPECT_THAT(graph.ops()[4].params, ElementsAre(ParamId{2}, ParamId{3}));
  EXPECT_EQ(graph.parameter_count(), 72u + 4 + 180 + 5);
}

TEST(Graph, InitialScalesAreHeBeforeReluAndGlorotElsewhere) {
  const Graph graph = SmallGraph();
  EXPECT_DOUBLE_EQ(graph.param(ParamId{0}).scale, std::sqrt(6.0 / 18));
  EXPECT_DOUBLE_EQ(graph.param(ParamId{2}).scale, std::sqrt(6.0 / (36 + 5)));
  EXPECT_EQ(graph.param(ParamId{1}).init, InitKind::kZero);
}

TEST(Graph, CountsFlopsAndBytesOfASample) {
  const Graph graph = SmallGraph();
  EXPECT_EQ(graph.ops()[0].forward_flops, 2 * 18 * 4 * 36);
  EXPECT_EQ(graph.ops()[0].backward_flops, 4 * 18 * 4 * 36);
  EXPECT_EQ(graph.ops()[0].forward_bytes, 4 * (2 * 36 + 4 * 36));
  EXPECT_EQ(graph.ops()[3].forward_flops, 0);
  EXPECT_EQ(graph.ops()[4].forward_flops, 2 * 36 * 5);
}

TEST(Graph, IsAValue) { EXPECT_EQ(SmallGraph(), SmallGraph()); }

TEST(GraphBuilder, LinearWantsAVector) {
  GraphBuilder b("m", {1, 4, 4});
  b.Linear("fc", b.input(), 3);
  EXPECT_THAT(ErrorOf(&b), HasSubstr("m: linear 'fc' on [1, 4, 4]: it takes a vector"));
}

TEST(GraphBuilder, ConvolutionAndPoolingWantAnImage) {
  GraphBuilder conv("m", {16});
  conv.Conv2d("c", conv.input(), 3, {.size = 3});
  EXPECT_THAT(ErrorOf(&conv), HasSubstr("it takes an image"));
  GraphBuilder pool("m", {16});
  pool.AvgPool("p", pool.input(), {.size = 2});
  EXPECT_THAT(ErrorOf(&pool), HasSubstr("it takes an image"));
}

TEST(GraphBuilder, WindowMustFit) {
  GraphBuilder b("m", {1, 4, 4});
  b.Conv2d("c", b.input(), 3, {.size = 5});
  EXPECT_THAT(ErrorOf(&b), HasSubstr("a window of 5 does not fit"));
}

TEST(GraphBuilder, WindowMustBePossible) {
  GraphBuilder b("m", {1, 4, 4});
  b.MaxPool("p", b.input(), {.size = 2, .stride = 0});
  EXPECT_THAT(ErrorOf(&b), HasSubstr("stride 0"));
}

TEST(GraphBuilder, ReportsTheFirstError) {
  GraphBuilder b("m", {1, 4, 4});
  b.SoftmaxCrossEntropy("loss", b.Linear("fc2", b.Linear("fc1", b.input(), 3), 2));
  EXPECT_THAT(ErrorOf(&b), HasSubstr("'fc1'"));
}

TEST(GraphBuilder, NamesAreUnique) {
  GraphBuilder b("m", {4});
  b.Linear("fc", b.Linear("fc", b.input(), 3), 3);
  EXPECT_THAT(ErrorOf(&b), HasSubstr("the name is taken"));
}

TEST(GraphBuilder, ATensorIsReadOnce) {
  GraphBuilder b("m", {4});
  b.Linear("fc1", b.input(), 3);
  b.Linear("fc2", b.input(), 3);
  EXPECT_THAT(ErrorOf(&b), HasSubstr("read by another operator"));
}

TEST(GraphBuilder, AModelEndsInItsLoss) {
  GraphBuilder b("m", {4});
  b.Linear("fc", b.input(), 3);
  EXPECT_THAT(ErrorOf(&b), HasSubstr("ends in one softmax_cross_entropy"));
}

TEST(GraphBuilder, InputMustBePossible) {
  GraphBuilder zero("m", {1, 0, 4});
  EXPECT_THAT(ErrorOf(&zero), HasSubstr("input shape [1, 0, 4] is impossible"));
  GraphBuilder huge("m", {int64_t{1} << 40, int64_t{1} << 40});
  EXPECT_THAT(ErrorOf(&huge), HasSubstr("is impossible"));
}

}  // namespace
}  // namespace soapstone::models
