#include "models/graph/graph.h"

#include <cmath>
#include <cstdint>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::models {
namespace {

using compute::Activation;
using compute::Conv2d;
using compute::Linear;
using compute::Pool;
using compute::Window;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(GraphBuilder* b) { return std::string(b->Build().status().message()); }

Graph SmallGraph() {
  GraphBuilder b("small");
  TensorId x = b.Input("input", DataType::kFloat32, {2, 6, 6});
  x = b.Apply("conv", Conv2d{.channels = 4, .window = Window::Square(3, 1, 1)}, {x});
  x = b.Apply("relu", Activation{}, {x});
  x = b.Flatten("flatten", b.Apply("pool", Pool{.window = Window::Square(2, 2)}, {x}));
  b.Loss("loss", b.Apply("fc", Linear{.outputs = 5}, {x}));
  return *b.Build();
}

TEST(Graph, InfersShapes) {
  const Graph graph = SmallGraph();
  const auto shape = [&](size_t op) { return graph.tensor(graph.ops()[op].outputs[0]).shape; };
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

TEST(Graph, CountsFlopsOfASample) {
  const Graph graph = SmallGraph();
  EXPECT_EQ(graph.ops()[0].cost.forward_flops, 2 * 18 * 4 * 36);
  EXPECT_EQ(graph.ops()[0].cost.backward_flops, 4 * 18 * 4 * 36);
  EXPECT_EQ(graph.ops()[3].cost.forward_flops, 0);
  EXPECT_EQ(graph.ops()[4].cost.forward_flops, 2 * 36 * 5);
}

TEST(Graph, IsAValue) { EXPECT_EQ(SmallGraph(), SmallGraph()); }

TEST(Graph, InputsComeInTheOrderGivenAndTheLabelsLast) {
  GraphBuilder b("m");
  const TensorId a = b.Input("a", DataType::kFloat32, {4});
  const TensorId c = b.Input("c", DataType::kFloat32, {4});
  b.Loss("loss", b.Apply("add", compute::Add{}, {a, c}));
  const Graph graph = *b.Build();
  ASSERT_EQ(graph.inputs().size(), 3u);
  EXPECT_EQ(graph.tensor(graph.inputs()[1]).name, "c");
  EXPECT_EQ(graph.labels(), graph.inputs()[2]);
  EXPECT_EQ(graph.tensor(graph.labels()).type, DataType::kInt32);
}

TEST(GraphBuilder, AnErrorNamesModelOperatorAndShape) {
  GraphBuilder b("m");
  const TensorId x = b.Input("input", DataType::kFloat32, {16});
  b.Apply("c", Conv2d{.channels = 3, .window = Window::Square(3)}, {x});
  EXPECT_THAT(ErrorOf(&b), HasSubstr("m: conv2d 'c': "));
}

TEST(GraphBuilder, ReportsTheFirstError) {
  GraphBuilder b("m");
  TensorId x = b.Input("input", DataType::kFloat32, {16});
  x = b.Apply("pool", Pool{.window = Window::Square(2)}, {x});
  b.Loss("loss", b.Apply("conv", Conv2d{.channels = 3}, {x}));
  EXPECT_THAT(ErrorOf(&b), HasSubstr("'pool'"));
}

TEST(GraphBuilder, NamesAreUnique) {
  GraphBuilder b("m");
  TensorId x = b.Input("input", DataType::kFloat32, {4});
  x = b.Apply("fc", Linear{.outputs = 3}, {x});
  b.Apply("fc", Linear{.outputs = 3}, {x});
  EXPECT_THAT(ErrorOf(&b), HasSubstr("the name is taken"));
}

TEST(GraphBuilder, AModelEndsInItsLoss) {
  GraphBuilder b("m");
  const TensorId x = b.Input("input", DataType::kFloat32, {4});
  b.Apply("fc", Linear{.outputs = 3}, {x});
  EXPECT_THAT(ErrorOf(&b), HasSubstr("ends in one softmax_cross_entropy"));
}

TEST(GraphBuilder, WhatNobodyReadsIsAnError) {
  GraphBuilder b("m");
  const TensorId x = b.Input("input", DataType::kFloat32, {4});
  b.Apply("idle", Linear{.outputs = 3}, {x});
  b.Loss("loss", b.Apply("fc", Linear{.outputs = 3}, {x}));
  EXPECT_THAT(ErrorOf(&b), HasSubstr("nothing reads the output of 'idle'"));
}

// A file of 2 MB has so many. Each was compared with all others: 10^10 times.
TEST(GraphBuilder, TakesTimeByTheNumberOfOperators) {
  const clock_t begin = clock();
  GraphBuilder b("m");
  TensorId x = b.Input("input", DataType::kFloat32, {2});
  for (int i = 0; i < 100'000; ++i) x = b.Apply(absl::StrCat("relu", i), Activation{}, {x});
  b.Loss("loss", x);
  EXPECT_TRUE(b.Build().ok());
  EXPECT_LT(clock() - begin, 8 * CLOCKS_PER_SEC);  // sanitized, on a busy machine
}

TEST(GraphBuilder, FlopsOfAbsurdShapesDoNotWrapRound) {
  GraphBuilder b("m");
  TensorId x = b.Input("input", DataType::kFloat32, {1 << 20, 1 << 10, 1 << 10});
  for (const char* name : {"a", "b"}) {
    x = b.Apply(name, compute::LocalResponseNorm{.size = (int64_t{1} << 40) - 1}, {x});
  }
  b.Loss("loss", b.Flatten("flat", x));
  const absl::StatusOr<Graph> graph = b.Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->flops_per_sample(), INT64_MAX);
}

TEST(GraphBuilder, InputMustBePossible) {
  GraphBuilder zero("m");
  zero.Input("input", DataType::kFloat32, {1, 0, 4});
  EXPECT_THAT(ErrorOf(&zero), HasSubstr("input shape [1, 0, 4] is impossible"));
  GraphBuilder huge("m");
  huge.Input("input", DataType::kFloat32, {int64_t{1} << 40, int64_t{1} << 40});
  EXPECT_THAT(ErrorOf(&huge), HasSubstr("is impossible"));
}

}  // namespace
}  // namespace soapstone::models
