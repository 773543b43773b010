// Values computed by hand, for what finite differences cannot see: that the forward pass itself is
// the operator of op.h.
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "compute/reference/backend.h"
#include "compute/testing/operator_cases.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

Tensor Integers(std::vector<int64_t> shape, const std::vector<int32_t>& values) {
  Tensor t{.shape = std::move(shape), .values = {}};
  for (int32_t v : values) t.values.push_back(std::bit_cast<float>(v));
  return t;
}

struct HandCase {
  Operator op;
  std::vector<Tensor> inputs, params;
  std::vector<std::vector<int64_t>> outputs;  // shapes
  bool training = false;
  std::vector<std::vector<float>> output_grads = {};
};

CaseResult RunByHand(const HandCase& hand) {
  OperatorCase c{.name = "by_hand", .op = hand.op, .training = hand.training};
  CaseValues values{.output_grads = hand.output_grads};
  for (const Tensor& t : hand.inputs) {
    const bool integer =
        std::holds_alternative<Embedding>(hand.op) ||
        (std::holds_alternative<SoftmaxCrossEntropy>(hand.op) && !c.inputs.empty());
    c.inputs.push_back({integer ? DataType::kInt32 : DataType::kFloat32, t.shape});
    values.inputs.push_back(t.values);
  }
  for (const Tensor& t : hand.params) {
    c.params.push_back({DataType::kFloat32, t.shape});
    values.params.push_back(t.values);
  }
  for (const auto& shape : hand.outputs) c.outputs.push_back({DataType::kFloat32, shape});
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  return *RunCase(backend.get(), c, values);
}

std::vector<float> Only(const HandCase& hand) { return RunByHand(hand).outputs.at(0); }

auto Are(const std::vector<float>& expected) { return Pointwise(FloatNear(1e-6f), expected); }

TEST(ReferenceValues, LinearMultipliesByRowsOfTheWeight) {
  HandCase s{.op = Linear{.outputs = 2},
             .inputs = {{{1, 2}, {1, 2}}},
             .params = {{{2, 2}, {10, 100, -1, -2}}, {{2}, {0.5f, 1}}},
             .outputs = {{1, 2}}};
  EXPECT_THAT(Only(s), Are({210.5f, -4}));
  s.op = Linear{.outputs = 2, .relu = true};
  EXPECT_THAT(Only(s), Are({210.5f, 0}));
}

TEST(ReferenceValues, Conv1x1MixesChannels) {
  EXPECT_THAT(Only({.op = Conv2d{.channels = 1},
                    .inputs = {{{1, 2, 1, 2}, {1, 2, 3, 4}}},
                    .params = {{{1, 2, 1, 1}, {10, 100}}, {{1}, {0.5f}}},
                    .outputs = {{1, 1, 1, 2}}}),
              Are({310.5f, 420.5f}));
}

// A correlation: the weight is not turned round.
TEST(ReferenceValues, ConvStepsByItsStrideAndPads) {
  const Window window = {.height = 1, .width = 2, .stride_w = 2, .pad_w = 1};
  EXPECT_THAT(Only({.op = Conv2d{.channels = 1, .window = window, .bias = false},
                    .inputs = {{{1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}}},
                    .params = {{{1, 1, 1, 2}, {1, 10}}},
                    .outputs = {{1, 1, 2, 2}}}),
              Are({10, 32, 40, 65}));
}

TEST(ReferenceValues, ConvGroupsKeepApart) {
  EXPECT_THAT(Only({.op = Conv2d{.channels = 4, .groups = 2, .bias = false},
                    .inputs = {{{1, 2, 1, 1}, {3, 5}}},
                    .params = {{{4, 1, 1, 1}, {1, 10, 100, 1000}}},
                    .outputs = {{1, 4, 1, 1}}}),
              Are({3, 30, 500, 5000}));
}

TEST(ReferenceValues, PoolPaddingIsNothingOrZero) {
  const Window window = {.height = 1, .width = 2, .stride_w = 2, .pad_w = 1};
  HandCase s{.op = Pool{.kind = PoolKind::kMax, .window = window},
             .inputs = {{{1, 1, 1, 3}, {-4, -3, -5}}},
             .params = {},
             .outputs = {{1, 1, 1, 2}}};
  EXPECT_THAT(Only(s), Are({-4, -3}));
  s.op = Pool{.kind = PoolKind::kAverage, .window = window};
  EXPECT_THAT(Only(s), Are({-2, -4}));
  s.op = Pool{.kind = PoolKind::kAverage, .window = window, .count_padding = false};
  EXPECT_THAT(Only(s), Are({-4, -4}));
}

TEST(ReferenceValues, BatchNormEvaluatesByTheRunningStatistics) {
  EXPECT_THAT(Only({.op = BatchNorm{.epsilon = 0},
                    .inputs = {{{1, 2}, {5, 5}}},
                    .params = {{{2}, {3, 1}}, {{2}, {1, 0}}, {{2}, {1, 4}}, {{2}, {4, 1}}},
                    .outputs = {{1, 2}}}),
              Are({7, 1}));
}

// n·(r − r_now) with the mean 2 and the variance 2 (÷ n − 1) of 1 and 3.
TEST(ReferenceValues, BatchNormTrainsByTheCallsAndTellsTheRunningOnes) {
  const CaseResult r = RunByHand({.op = BatchNorm{.epsilon = 0},
                                  .inputs = {{{2, 1}, {1, 3}}},
                                  .params = {{{1}, {3}}, {{1}, {1}}, {{1}, {5}}, {{1}, {7}}},
                                  .outputs = {{2, 1}},
                                  .training = true,
                                  .output_grads = {{1, 10}}});
  EXPECT_THAT(r.outputs[0], Are({-2, 4}));
  EXPECT_THAT(r.param_grads[0], Are({9}));
  EXPECT_THAT(r.param_grads[1], Are({11}));
  EXPECT_THAT(r.param_grads[2], Are({6}));
  EXPECT_THAT(r.param_grads[3], Are({10}));
}

TEST(ReferenceValues, LayerNormIsByRow) {
  EXPECT_THAT(Only({.op = LayerNorm{.epsilon = 0},
                    .inputs = {{{2, 2}, {1, 3, 50, 10}}},
                    .params = {{{2}, {2, 4}}, {{2}, {1, 0}}},
                    .outputs = {{2, 2}}}),
              Are({-1, 4, 3, -4}));
}

// x = 1, 2, 3: sums of squares 5, 14, 13.
TEST(ReferenceValues, LocalResponseNormDividesByTheChannelsAround) {
  EXPECT_THAT(Only({.op = LocalResponseNorm{.size = 3, .alpha = 3, .beta = 1, .k = 1},
                    .inputs = {{{1, 3, 1, 1}, {1, 2, 3}}},
                    .params = {},
                    .outputs = {{1, 3, 1, 1}}}),
              Are({1.0f / 6, 2.0f / 15, 3.0f / 14}));
}

TEST(ReferenceValues, EmbeddingTakesRowsAndSumsTheirGradients) {
  const CaseResult r = RunByHand({.op = Embedding{.rows = 3, .dim = 2},
                                  .inputs = {Integers({3}, {2, 0, 2})},
                                  .params = {{{3, 2}, {1, 2, 3, 4, 5, 6}}},
                                  .outputs = {{3, 2}},
                                  .training = true,
                                  .output_grads = {{1, 2, 10, 20, 100, 200}}});
  EXPECT_THAT(r.outputs[0], Are({5, 6, 1, 2, 5, 6}));
  EXPECT_THAT(r.param_grads[0], Are({10, 20, 0, 0, 101, 202}));
}

// One step whose gates are i = 3/4, f = 1/4, g = 0.6, o = 1/2: a quarter of each pre-activation is
// the bias's, a quarter h_0's, a half x's. c = 2/4 + 0.6·3/4.
TEST(ReferenceValues, LstmOfOneStep) {
  const float ln3 = std::log(3.0f);
  const std::vector<float> a = {ln3, -ln3, std::atanh(0.6f), 0};
  std::vector<float> quarter = a;
  for (float& v : quarter) v /= 4;
  const CaseResult r = RunByHand({.op = Lstm{.hidden = 1, .state = true},
                                  .inputs = {{{1, 1, 1}, {0.5f}}, {{1, 1}, {0.25f}}, {{1, 1}, {2}}},
                                  .params = {{{4, 1}, a}, {{4, 1}, a}, {{4}, quarter}},
                                  .outputs = {{1, 1, 1}, {1, 1}, {1, 1}}});
  EXPECT_THAT(r.outputs[0], Are({0.5f * std::tanh(0.95f)}));
  EXPECT_EQ(r.outputs[1], r.outputs[0]);
  EXPECT_THAT(r.outputs[2], Are({0.95f}));
}

// Its output at a place is the plain one's of the reversed sequence, and its last state that of the
// first place.
TEST(ReferenceValues, LstmReversedIsTheReversedSequences) {
  const std::vector<Tensor> params = {{{4, 1}, {0.3f, -0.5f, 0.8f, 1}},
                                      {{4, 1}, {1, 0.2f, -0.7f, 0.4f}},
                                      {{4}, {0.1f, 0.2f, 0.3f, -0.4f}}};
  const Tensor h{{1, 1}, {0.3f}}, c{{1, 1}, {-0.6f}};
  const std::vector<std::vector<int64_t>> outputs = {{1, 3, 1}, {1, 1}, {1, 1}};
  const CaseResult plain = RunByHand({.op = Lstm{.hidden = 1, .state = true},
                                      .inputs = {{{1, 3, 1}, {1, -2, 3}}, h, c},
                                      .params = params,
                                      .outputs = outputs});
  CaseResult reversed = RunByHand({.op = Lstm{.hidden = 1, .state = true, .reverse = true},
                                   .inputs = {{{1, 3, 1}, {3, -2, 1}}, h, c},
                                   .params = params,
                                   .outputs = outputs});
  EXPECT_EQ(reversed.outputs[0][0], reversed.outputs[1][0]);
  std::reverse(reversed.outputs[0].begin(), reversed.outputs[0].end());
  EXPECT_EQ(reversed.outputs, plain.outputs);
}

// Scores 0 and ln 3, after the division by √4.
TEST(ReferenceValues, AttentionWeighsBySoftmaxOfScaledScores) {
  const float ln3 = std::log(3.0f);
  EXPECT_THAT(Only({.op = MultiHeadAttention{.heads = 1},
                    .inputs = {{{1, 1, 4}, {2, 0, 0, 0}},
                               {{1, 2, 4}, {0, 9, 9, 9, ln3, 9, 9, 9}},
                               {{1, 2, 4}, {4, 0, 0, 1, 8, 4, 0, 1}}},
                    .params = {},
                    .outputs = {{1, 1, 4}}}),
              Are({7, 3, 0, 1}));
}

TEST(ReferenceValues, AttentionHeadsAreSlicesOfTheFeatures) {
  const float ln3 = std::log(3.0f);
  EXPECT_THAT(Only({.op = MultiHeadAttention{.heads = 2},
                    .inputs = {{{1, 1, 2}, {1, -1}},
                               {{1, 2, 2}, {0, 0, ln3, ln3}},
                               {{1, 2, 2}, {4, 4, 8, 8}}},
                    .params = {},
                    .outputs = {{1, 1, 2}}}),
              Are({7, 5}));
}

TEST(ReferenceValues, CausalAttentionSeesNothingLater) {
  EXPECT_THAT(
      Only({.op = MultiHeadAttention{.heads = 1, .causal = true},
            .inputs = {{{1, 3, 1}, {0, 0, 0}}, {{1, 3, 1}, {5, 6, 7}}, {{1, 3, 1}, {3, 6, 12}}},
            .params = {},
            .outputs = {{1, 3, 1}}}),
      Are({3, 4.5f, 7}));
}

// tanh(½ + atanh(½) − ½) = ½ and tanh(0) = 0, times 2 ln 3: scores ln 3 and 0.
TEST(ReferenceValues, AdditiveAttentionScoresByTanh) {
  EXPECT_THAT(Only({.op = AdditiveAttention{},
                    .inputs = {{{1, 1, 1}, {0.5f}},
                               {{1, 2, 1}, {std::atanh(0.5f) - 0.5f, -0.5f}},
                               {{1, 2, 3}, {4, 0, 1, 8, 4, 1}}},
                    .params = {{{1}, {2 * std::log(3.0f)}}},
                    .outputs = {{1, 1, 3}}}),
              Are({5, 1, 1}));
}

TEST(ReferenceValues, PairwiseDotIsTheLowerTriangleByRows) {
  EXPECT_THAT(Only({.op = PairwiseDot{},
                    .inputs = {{{1, 3, 2}, {1, 2, 3, 4, 5, 6}}},
                    .params = {},
                    .outputs = {{1, 3}}}),
              Are({11, 17, 39}));
}

TEST(ReferenceValues, Activations) {
  HandCase s{.op = Activation{ActivationKind::kRelu},
             .inputs = {{{1, 3}, {-1, 0, 2}}},
             .params = {},
             .outputs = {{1, 3}}};
  EXPECT_THAT(Only(s), Are({0, 0, 2}));
  s.op = Activation{ActivationKind::kTanh};
  EXPECT_THAT(Only(s), Are({-0.7615942f, 0, 0.9640276f}));
  s.op = Activation{ActivationKind::kSigmoid};
  EXPECT_THAT(Only(s), Are({0.2689414f, 0.5f, 0.8807971f}));
  s.op = Activation{ActivationKind::kGelu};
  EXPECT_THAT(Only(s), Are({-0.1586553f, 0, 1.9544997f}));
}

TEST(ReferenceValues, SumsAndProducts) {
  const Tensor a{{2, 2}, {1, 2, 3, 4}}, b{{2, 2}, {-10, 10, 20, 30}};
  const std::vector<std::vector<int64_t>> out = {{2, 2}};
  EXPECT_THAT(Only({.op = Add{}, .inputs = {a, b, a}, .params = {}, .outputs = out}),
              Are({-8, 14, 26, 38}));
  EXPECT_THAT(Only({.op = Add{.relu = true}, .inputs = {a, b}, .params = {}, .outputs = out}),
              Are({0, 12, 23, 34}));
  EXPECT_THAT(Only({.op = Multiply{}, .inputs = {a, b}, .params = {}, .outputs = out}),
              Are({-10, 20, 60, 120}));
  EXPECT_THAT(
      Only({.op = AddParameter{}, .inputs = {a}, .params = {{{2}, {100, 200}}}, .outputs = out}),
      Are({101, 202, 103, 204}));
}

TEST(ReferenceValues, ConcatAndSplitAreInOrder) {
  const Tensor a{{2, 1, 2}, {1, 2, 3, 4}}, b{{2, 2, 2}, {5, 6, 7, 8, 9, 10, 11, 12}};
  const Tensor both{{2, 3, 2}, {1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11, 12}};
  EXPECT_EQ(Only({.op = Concat{1}, .inputs = {a, b}, .params = {}, .outputs = {both.shape}}),
            both.values);
  EXPECT_THAT(
      RunByHand(
          {.op = Split{1, {1, 2}}, .inputs = {both}, .params = {}, .outputs = {a.shape, b.shape}})
          .outputs,
      ElementsAre(a.values, b.values));
}

// [1, 2, 3, 1] to [1, 3, 1, 2]: a permutation that is not its own inverse.
TEST(ReferenceValues, TransposeTakesItsAxesFromThePermutation) {
  EXPECT_THAT(Only({.op = Transpose{{0, 2, 3, 1}},
                    .inputs = {{{1, 2, 3, 1}, {1, 2, 3, 4, 5, 6}}},
                    .params = {},
                    .outputs = {{1, 3, 1, 2}}}),
              Are({1, 4, 2, 5, 3, 6}));
}

TEST(ReferenceValues, ReduceSumsOverAxesThatDisappear) {
  HandCase s{.op = Reduce{.kind = ReduceKind::kSum, .axes = {1, 3}},
             .inputs = {{{1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}}},
             .params = {},
             .outputs = {{1, 2}}};
  EXPECT_THAT(Only(s), Are({14, 22}));
  s.op = Reduce{.kind = ReduceKind::kMean, .axes = {1, 3}};
  EXPECT_THAT(Only(s), Are({3.5f, 5.5f}));
}

// Sample 0 has one label, sample 1 two (the second among equal logits: a hit is the first), sample
// 2 none.
TEST(ReferenceValues, CrossEntropyIsTheMeanOverAPlaceWithALabel) {
  const float ln3 = std::log(3.0f);
  const CaseResult r = RunByHand({.op = SoftmaxCrossEntropy{},
                                  .inputs = {{{3, 2, 2}, {0, ln3, 7, 9, 0, ln3, 0, 0, 1, 2, 3, 4}},
                                             Integers({3, 2}, {0, -1, 1, 1, -1, -1})},
                                  .params = {},
                                  .outputs = {{3}, {3}},
                                  .training = true});
  const float ln4 = std::log(4.0f), ln2 = std::log(2.0f);
  EXPECT_THAT(r.outputs[0], Are({ln4, (ln4 - ln3 + ln2) / 2, 0}));
  EXPECT_THAT(r.outputs[1], Are({0, 0.5f, 0}));
  EXPECT_THAT(r.input_grads[0],
              Are({-0.75f, 0.75f, 0, 0, 0.125f, -0.125f, 0.25f, -0.25f, 0, 0, 0, 0}));
  EXPECT_TRUE(r.input_grads[1].empty());
}

TEST(ReferenceValues, CrossEntropyDoesNotOverflow) {
  const CaseResult r = RunByHand({.op = SoftmaxCrossEntropy{},
                                  .inputs = {{{1, 2}, {1000, 0}}, Integers({1}, {1})},
                                  .params = {},
                                  .outputs = {{1}, {1}},
                                  .training = true});
  EXPECT_THAT(r.outputs[0], Are({1000}));
  EXPECT_THAT(r.input_grads[0], Are({1, -1}));
}

}  // namespace
}  // namespace soapstone::compute
