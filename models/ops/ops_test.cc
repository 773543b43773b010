// Shapes, parameters, errors and costs of the operators.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "compute/testing/operator_cases.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/ops/op_rules.h"

namespace soapstone::models {
namespace {

using compute::DataType;
using compute::TensorSpec;
using compute::Window;
using ::testing::HasSubstr;

TensorSpec F(std::vector<int64_t> shape) { return {DataType::kFloat32, std::move(shape)}; }
TensorSpec I(std::vector<int64_t> shape) { return {DataType::kInt32, std::move(shape)}; }

// The message, or "OK".
std::string ErrorOf(const compute::Operator& op, const std::vector<TensorSpec>& inputs) {
  const absl::StatusOr<OpShapes> shapes = InferShapes(op, inputs);
  return shapes.ok() ? "OK" : std::string(shapes.status().message());
}

OpShapes ShapesOf(const compute::Operator& op, const std::vector<TensorSpec>& inputs) {
  absl::StatusOr<OpShapes> shapes = InferShapes(op, inputs);
  EXPECT_TRUE(shapes.ok()) << shapes.status();
  return shapes.ok() ? *shapes : OpShapes{};
}

// The kernels' cases were written down apart from the rules.
TEST(OpShapesTest, CasesOfKernelsHaveTheRulesShapes) {
  size_t cases = 0;
  for (const compute::OperatorCase& c : compute::OperatorCases()) {
    const absl::StatusOr<OpShapes> shapes = InferShapes(c.op, c.inputs);
    ASSERT_TRUE(shapes.ok()) << c.name << ": " << shapes.status();
    EXPECT_EQ(shapes->outputs, c.outputs) << c.name;
    ASSERT_EQ(shapes->params.size(), c.params.size()) << c.name;
    for (size_t i = 0; i < c.params.size(); ++i) {
      EXPECT_EQ(shapes->params[i].shape, c.params[i].shape) << c.name;
    }
    ++cases;
  }
  EXPECT_GT(cases, 20u);
}

TEST(OpShapesTest, ConvolutionRoundsDownAndNamesItsParameters) {
  const OpShapes s = ShapesOf(compute::Conv2d{64, Window::Square(11, 4, 2)}, {F({2, 3, 224, 224})});
  EXPECT_EQ(s.outputs[0], F({2, 64, 55, 55}));
  ASSERT_EQ(s.params.size(), 2u);
  EXPECT_EQ(s.params[0].name, "weight");
  EXPECT_EQ(s.params[0].shape, (std::vector<int64_t>{64, 3, 11, 11}));
  EXPECT_EQ(s.params[1],
            (ParamSpec{.name = "bias", .shape = {64}, .init = InitKind::kZero, .scale = 0}));
}

TEST(OpShapesTest, InitialScalesAreGlorotsAndHes) {
  // Weight [8, 4, 3, 3]: fan in 36, fan out 72.
  const std::vector<TensorSpec> image = {F({1, 4, 5, 5})};
  EXPECT_EQ(ShapesOf(compute::Conv2d{8, Window::Square(3)}, image).params[0].scale,
            std::sqrt(6.0 / 108.0));
  EXPECT_EQ(ShapesOf(compute::Conv2d{8, Window::Square(3), 1, true, true}, image).params[0].scale,
            std::sqrt(6.0 / 36.0));
  // In two groups: weight [8, 2, 3, 3], fan in 18, fan out 36.
  EXPECT_EQ(ShapesOf(compute::Conv2d{8, Window::Square(3), 2}, image).params[0].scale,
            std::sqrt(6.0 / 54.0));
  EXPECT_EQ(ShapesOf(compute::Linear{10}, {F({1, 20})}).params[0].scale, std::sqrt(6.0 / 30.0));
}

TEST(OpShapesTest, RunningStatisticsAreAveraged) {
  const OpShapes s = ShapesOf(compute::BatchNorm{.momentum = 0.25}, {F({2, 3, 4, 4})});
  ASSERT_EQ(s.params.size(), 4u);
  EXPECT_EQ(s.params[0].average_rate, 0);
  EXPECT_EQ(s.params[2].name, "running_mean");
  EXPECT_EQ(s.params[2].average_rate, 0.25);
  EXPECT_EQ(s.params[3].init, InitKind::kOne);
  EXPECT_EQ(s.params[3].average_rate, 0.25);
}

TEST(OpShapesTest, LstmWithStateHandsItOn) {
  const OpShapes s =
      ShapesOf(compute::Lstm{.hidden = 4, .state = true}, {F({2, 5, 3}), F({2, 4}), F({2, 4})});
  EXPECT_EQ(s.outputs, (std::vector<TensorSpec>{F({2, 5, 4}), F({2, 4}), F({2, 4})}));
  EXPECT_EQ(s.params[0].shape, (std::vector<int64_t>{16, 3}));
  EXPECT_EQ(s.params[1].shape, (std::vector<int64_t>{16, 4}));
  EXPECT_EQ(s.params[2].scale, 0.5);
}

TEST(OpErrorsTest, OfImagesAndWindows) {
  EXPECT_EQ(ErrorOf(compute::Conv2d{4}, {F({8, 10})}),
            "it takes an image [N, C, H, W], not [8, 10]");
  EXPECT_EQ(ErrorOf(compute::Conv2d{4, {}, 2}, {F({1, 3, 8, 8})}),
            "channels 3 do not divide into groups of 2");
  EXPECT_EQ(ErrorOf(compute::Pool{.window = Window::Square(5)}, {F({1, 1, 3, 3})}),
            "a window of 5x5 does not fit into 3x3 with padding 0");
  EXPECT_EQ(ErrorOf(compute::Pool{.window = Window::Square(2, 1, 2)}, {F({1, 1, 3, 3})}),
            "padding 2 is not smaller than the window of 2x2");
  EXPECT_EQ(ErrorOf(compute::Pool{.window = Window::Square(2, 0)}, {F({1, 1, 3, 3})}),
            "the window's stride must be at least 1, not 0");
  EXPECT_EQ(ErrorOf(compute::LocalResponseNorm{.size = 0}, {F({1, 8, 3, 3})}),
            "size must be at least 1, not 0");
}

TEST(OpErrorsTest, OfInputs) {
  EXPECT_EQ(ErrorOf(compute::Linear{4}, {F({1, 2}), F({1, 2})}), "it takes 1 input, not 2");
  EXPECT_EQ(ErrorOf(compute::Linear{4}, {F({8})}), "it takes [N, .., D], not [8]");
  EXPECT_EQ(ErrorOf(compute::Linear{0}, {F({8, 2})}), "outputs must be at least 1, not 0");
  EXPECT_EQ(ErrorOf(compute::Linear{4}, {I({8, 2})}), "it takes float32 values, not int32 [8, 2]");
  EXPECT_EQ(ErrorOf(compute::Embedding{9, 2}, {F({8, 2})}),
            "it takes int32 ids, not float32 [8, 2]");
  EXPECT_EQ(ErrorOf(compute::Lstm{4, true}, {F({2, 5, 3}), F({2, 4}), F({2, 3})}),
            "c_0 must be [N, H] = [2, 4], not [2, 3]");
  EXPECT_EQ(ErrorOf(compute::Lstm{0}, {F({2, 5, 3})}), "hidden must be at least 1, not 0");
  EXPECT_EQ(ErrorOf(compute::Add{}, {F({2, 5}), F({2, 4})}),
            "its inputs must have one shape, not [2, 5] and [2, 4]");
  EXPECT_EQ(ErrorOf(compute::Dropout{1.0}, {F({2, 5})}), "rate must be in [0, 1), not 1");
  EXPECT_EQ(ErrorOf(compute::SoftmaxCrossEntropy{}, {F({2, 5, 7}), I({2})}),
            "labels must be [2, 5] for logits [2, 5, 7], not [2]");
}

TEST(OpErrorsTest, OfAttention) {
  const TensorSpec x = F({2, 5, 10});
  EXPECT_EQ(ErrorOf(compute::MultiHeadAttention{3}, {x, x, x}),
            "features 10 do not divide into heads 3");
  EXPECT_EQ(ErrorOf(compute::MultiHeadAttention{2, true}, {x, F({2, 4, 10}), F({2, 4, 10})}),
            "causal attention needs as many keys as queries, not 4 and 5");
  EXPECT_THAT(ErrorOf(compute::AdditiveAttention{}, {x, F({2, 4, 10}), F({2, 3, 6})}),
              HasSubstr("there is one value a key"));
  EXPECT_EQ(ErrorOf(compute::PairwiseDot{}, {F({2, 1, 10})}),
            "it takes two vectors or more, [N, F, D], not [2, 1, 10]");
}

TEST(OpErrorsTest, OfAxes) {
  const TensorSpec x = F({2, 4, 6});
  EXPECT_EQ(ErrorOf(compute::Concat{0}, {x, x}), "axis 0 is none of [2, 4, 6]'s, or is the batch");
  EXPECT_EQ(ErrorOf(compute::Concat{1}, {x, F({2, 4, 5})}),
            "its inputs may differ along axis 1 only, not as [2, 4, 6] and [2, 4, 5]");
  EXPECT_EQ(ErrorOf(compute::Split{2, {2, 3}}, {x}),
            "sizes 2 + 3 are not the 6 of axis 2 of [2, 4, 6]");
  EXPECT_EQ(ErrorOf(compute::Reshape{{5, 5}}, {x}),
            "the shape [5, 5] has 25 elements, a sample of [2, 4, 6] has 24");
  EXPECT_EQ(ErrorOf(compute::Transpose{{0, 1, 1}}, {x}),
            "[0, 1, 1] is no permutation of the axes of [2, 4, 6]");
  EXPECT_THAT(ErrorOf(compute::Transpose{{1, 0, 2}}, {x}), HasSubstr("the batch must stay first"));
  EXPECT_THAT(ErrorOf(compute::Reduce{.axes = {2, 1}}, {x}), HasSubstr("must ascend"));
  EXPECT_THAT(ErrorOf(compute::Reduce{.axes = {0}}, {x}), HasSubstr("must ascend from 1"));
}

TEST(OpErrorsTest, OfAbsurdSizes) {
  const int64_t big = int64_t{1} << 39;
  EXPECT_EQ(ErrorOf(compute::Activation{}, {F({big, 4})}),
            "the input [549755813888, 4] has more than 2^40 elements");
  EXPECT_EQ(ErrorOf(compute::Activation{}, {F({2, 0})}),
            "the input [2, 0] has a dimension below 1");
  EXPECT_THAT(ErrorOf(compute::Linear{big}, {F({1, 4})}), HasSubstr("more than 2^40 elements"));
  EXPECT_THAT(ErrorOf(compute::Lstm{big}, {F({1, 1, 1})}), HasSubstr("more than 2^40 elements"));
  EXPECT_THAT(ErrorOf(compute::Reshape{{big, big}}, {F({2, 6})}), HasSubstr("more than 2^40"));
}

OpCost CostOn(const compute::Operator& op, const std::vector<TensorSpec>& inputs) {
  return CostOf(op, ShapesOf(op, inputs));
}

TEST(OpCostTest, OfProducts) {
  // 2 samples, 3 inputs, 4 outputs: 2·3 FLOPs an output. Bytes: X 6, Y 8, W and b 16 numbers.
  EXPECT_EQ(CostOn(compute::Linear{4}, {F({2, 3})}),
            (OpCost{.forward_flops = 48,
                    .backward_flops = 96,
                    .forward_bytes = 4 * 30,
                    .backward_bytes = 4 * (8 + 6 + 6 + 32)}));
  // 16 outputs of 2·2·3·3 taps.
  EXPECT_EQ(CostOn(compute::Conv2d{4, Window::Square(3), 2}, {F({1, 4, 4, 4})}).forward_flops,
            2 * 18 * 16);
  // 8·H·(D + H)·N·T and 13 for each unit and step.
  EXPECT_EQ(CostOn(compute::Lstm{4}, {F({2, 5, 3})}).forward_flops, 8 * 4 * 7 * 10 + 13 * 4 * 10);
}

TEST(OpCostTest, OfAttention) {
  const TensorSpec x = F({2, 5, 6});
  // 4·N·T·S·D, and 5 a score of each head; causal: 15 of the 25 pairs.
  EXPECT_EQ(CostOn(compute::MultiHeadAttention{3}, {x, x, x}).forward_flops,
            4 * 2 * 25 * 6 + 5 * 2 * 25 * 3);
  EXPECT_EQ(CostOn(compute::MultiHeadAttention{3, true}, {x, x, x}).forward_flops,
            4 * 2 * 15 * 6 + 5 * 2 * 15 * 3);
}

TEST(OpCostTest, OfMemoryBoundOperators) {
  EXPECT_EQ(CostOn(compute::Activation{}, {F({2, 3})}), (OpCost{6, 6, 4 * 12, 4 * 18}));
  EXPECT_EQ(CostOn(compute::Reshape{{3, 1}}, {F({2, 3})}), (OpCost{}));
  EXPECT_EQ(CostOn(compute::Transpose{{0, 2, 1}}, {F({2, 3, 4})}), (OpCost{0, 0, 192, 192}));
  EXPECT_EQ(CostOn(compute::Add{}, {F({2, 3}), F({2, 3})}), (OpCost{6, 0, 4 * 18, 0}));
  // 5 ids of rows of 4, in a table of 100: it is read by rows, its gradient written whole.
  EXPECT_EQ(CostOn(compute::Embedding{100, 4}, {I({5})}),
            (OpCost{0, 20, 4 * (5 + 20 + 20), 4 * (5 + 20 + 400)}));
}

}  // namespace
}  // namespace soapstone::models
