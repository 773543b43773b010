// The operators of sequences against the reference backend.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "compute/cpu/backend.h"
#include "compute/cpu/vector_math.h"
#include "compute/reference/backend.h"
#include "compute/testing/operator_cases.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

// Relative error of a tensor, against sums in double. With weights of about 1 an LSTM of many
// hidden units multiplies the rounding of each step by that of the next.
double ToleranceOf(const OperatorCase& c) {
  return std::holds_alternative<Lstm>(c.op) ? 1e-5 : 2e-6;
}

struct IsOfSequences {
  template <typename Op>
  bool operator()(const Op&) const {
    return std::is_same_v<Op, Lstm> || std::is_same_v<Op, MultiHeadAttention> ||
           std::is_same_v<Op, AdditiveAttention> || std::is_same_v<Op, Embedding> ||
           std::is_same_v<Op, LayerNorm> || std::is_same_v<Op, SoftmaxCrossEntropy> ||
           std::is_same_v<Op, Dropout> || std::is_same_v<Op, AddParameter> ||
           std::is_same_v<Op, Split> || std::is_same_v<Op, Transpose>;
  }
};

TensorSpec Real(std::vector<int64_t> shape) { return {DataType::kFloat32, std::move(shape)}; }
TensorSpec Whole(std::vector<int64_t> shape) { return {DataType::kInt32, std::move(shape)}; }

// [n, t, d] → hidden 4·h, enough steps for packed weights
OperatorCase LargeLstm(const std::string& name, int64_t h, bool state, bool reverse) {
  constexpr int64_t kN = 5, kT = 9, kD = 33;
  OperatorCase c = {.name = name,
                    .op = Lstm{.hidden = h, .state = state, .reverse = reverse},
                    .inputs = {Real({kN, kT, kD})},
                    .params = {Real({4 * h, kD}), Real({4 * h, h}), Real({4 * h})},
                    .outputs = {Real({kN, kT, h})}};
  for (int i = 0; state && i < 2; ++i) {
    c.inputs.push_back(Real({kN, h}));
    c.outputs.push_back(Real({kN, h}));
  }
  return c;
}

OperatorCase LargeAttention(const std::string& name, int64_t t, int64_t s, bool causal) {
  const TensorSpec q = Real({2, t, 24}), k = Real({2, s, 24});
  return {.name = name,
          .op = MultiHeadAttention{.heads = 3, .causal = causal},
          .inputs = {q, k, k},
          .outputs = {q}};
}

// Beyond a row of lanes, a block of queries and the steps from which weights are packed.
std::vector<OperatorCase> LargeCases() {
  const TensorSpec rows = Real({3, 7, 201});
  return {LargeLstm("large_lstm", 70, false, false),
          LargeLstm("large_lstm_state", 65, true, false),
          LargeLstm("large_lstm_reverse", 48, false, true),
          LargeLstm("large_lstm_reverse_state", 37, true, true),
          LargeAttention("large_attention", 150, 131, false),
          LargeAttention("large_causal_attention", 150, 150, true),
          LargeAttention("causal_attention_of_one_block", 64, 64, true),
          {.name = "large_additive_attention",
           .op = AdditiveAttention{},
           .inputs = {Real({3, 11, 150}), Real({3, 70, 150}), Real({3, 70, 37})},
           .params = {Real({150})},
           .outputs = {Real({3, 11, 37})}},
          {.name = "large_layer_norm",
           .op = LayerNorm{},
           .inputs = {rows},
           .params = {Real({201}), Real({201})},
           .outputs = {rows}},
          {.name = "large_softmax_cross_entropy",
           .op = SoftmaxCrossEntropy{},
           .inputs = {Real({5, 4, 517}), Whole({5, 4})},
           .outputs = {Real({5}), Real({5})}},
          {.name = "large_embedding",
           .op = Embedding{.rows = 100, .dim = 70},
           .inputs = {Whole({9, 30})},
           .params = {Real({100, 70})},
           .outputs = {Real({9, 30, 70})}},
          {.name = "large_dropout",
           .op = Dropout{.rate = 0.3},
           .inputs = {Real({3, 5, 511})},
           .outputs = {Real({3, 5, 511})}}};
}

std::vector<OperatorCase> SequenceCases() {
  std::vector<OperatorCase> cases = LargeCases();
  for (OperatorCase& c : OperatorCases()) {
    if (std::visit(IsOfSequences{}, c.op)) cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<OperatorCase> WithEvaluation(std::vector<OperatorCase> cases) {
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    if (!cases[i].training) continue;
    cases.push_back(cases[i]);
    cases.back().name += "_evaluated";
    cases.back().training = false;
  }
  return cases;
}

CaseResult RunOn(Backend* backend, const OperatorCase& c, const CaseValues& values,
                 bool in_place = false) {
  absl::StatusOr<CaseResult> result = RunCase(backend, c, values, in_place);
  if (result.ok()) return *std::move(result);
  ADD_FAILURE() << result.status();
  return {};
}

using Tensors = std::vector<std::vector<float>>;

void ExpectNear(const Tensors& got, const Tensors& expected, double tolerance, const char* what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(RelativeError(got[i], expected[i]), tolerance) << what << " " << i;
  }
}
void ExpectNear(const CaseResult& got, const CaseResult& expected, double tolerance) {
  ExpectNear(got.outputs, expected.outputs, tolerance, "output");
  ExpectNear(got.input_grads, expected.input_grads, tolerance, "gradient of input");
  ExpectNear(got.param_grads, expected.param_grads, tolerance, "gradient of parameter");
}

bool SameBits(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return false;
    if (!a[i].empty() && std::memcmp(a[i].data(), b[i].data(), a[i].size() * 4) != 0) return false;
  }
  return true;
}
void ExpectSameBits(const CaseResult& a, const CaseResult& b) {
  EXPECT_TRUE(SameBits(a.outputs, b.outputs));
  EXPECT_TRUE(SameBits(a.input_grads, b.input_grads));
  EXPECT_TRUE(SameBits(a.param_grads, b.param_grads));
}

class CpuSequences : public testing::TestWithParam<OperatorCase> {
 protected:
  void SetUp() override {
    values_ = ValuesOf(GetParam(), 3);
    expected_ = RunOn(MakeReferenceBackend().get(), GetParam(), values_);
  }
  CaseValues values_;
  CaseResult expected_;
};

TEST_P(CpuSequences, ComputesWhatTheReferenceDoes) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend({});
  const CaseResult result = RunOn(cpu.get(), GetParam(), values_);
  ExpectNear(result, expected_, ToleranceOf(GetParam()));
  ExpectSameBits(RunOn(cpu.get(), GetParam(), values_), result);
  ExpectSameBits(RunOn(cpu.get(), GetParam(), values_, true), result);
}

TEST_P(CpuSequences, DoesSoWithTwoThreads) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 2});
  const CaseResult result = RunOn(cpu.get(), GetParam(), values_);
  ExpectNear(result, expected_, ToleranceOf(GetParam()));
  ExpectSameBits(RunOn(cpu.get(), GetParam(), values_), result);
}

INSTANTIATE_TEST_SUITE_P(Cases, CpuSequences, testing::ValuesIn(WithEvaluation(SequenceCases())),
                         [](const auto& info) { return info.param.name; });

// Of f(x) over [from, to] against `exact` in double.
template <typename F, typename Exact>
double LargestError(const F& f, const Exact& exact, double from, double to) {
  constexpr int kPoints = 100001;
  double largest = 0;
  for (int i = 0; i < kPoints; ++i) {
    const float x = static_cast<float>(from + (to - from) * i / (kPoints - 1));
    const double y = exact(static_cast<double>(x));
    largest = std::max(largest, std::abs(f(x) - y) / std::max(std::abs(y), 1e-37));
  }
  return largest;
}

TEST(VectorMath, IsWithinThreeUnitsInTheLastPlace) {
  const double three = 3 * double{std::numeric_limits<float>::epsilon()} / 2;
  const auto exp = [](double x) { return std::exp(x); };
  const auto tanh = [](double x) { return std::tanh(x); };
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LE(LargestError([](float x) { return VectorExp(x); }, exp, -86.9, 87.9), three);
  EXPECT_LE(LargestError([](float x) { return VectorTanh(x); }, tanh, -20, 20), three);
  EXPECT_LE(LargestError([](float x) { return VectorTanh(x); }, tanh, -1, 1), three);
  EXPECT_LE(LargestError([](float x) { return VectorTanh(x); }, tanh, -1e-3, 1e-3), three);
  const auto log = [](double x) { return std::log(x); };
  for (const auto& [from, to] : {std::pair(1e-30, 1e-3), {1e-3, 1.0}, {0.99, 1.01}, {1.0, 1e30}}) {
    EXPECT_LE(LargestError([](float x) { return VectorLog(x); }, log, from, to), three);
  }
  EXPECT_LE(LargestError([](float x) { return VectorSigmoid(x); }, sigmoid, -86, 86), three);
}

TEST(VectorMath, EndsWhereFloatsDo) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(VectorExp(-kInfinity), 0.0f);
  EXPECT_EQ(VectorExp(-1000.0f), 0.0f);
  EXPECT_EQ(VectorExp(0.0f), 1.0f);
  EXPECT_GT(VectorExp(kInfinity), 1e38f);
  EXPECT_TRUE(std::isnan(VectorExp(kNan)));
  EXPECT_EQ(VectorLog(1.0f), 0.0f);
  EXPECT_TRUE(std::isnan(VectorLog(kNan)));
  EXPECT_EQ(VectorTanh(kInfinity), 1.0f);
  EXPECT_EQ(VectorTanh(-kInfinity), -1.0f);
  EXPECT_TRUE(std::isnan(VectorTanh(kNan)));
  EXPECT_EQ(VectorSigmoid(1000.0f), 1.0f);
  EXPECT_LT(VectorSigmoid(-1000.0f), 1e-37f);
}

OperatorCase LossCase(std::vector<int64_t> logits) {
  std::vector<int64_t> labels(logits.begin(), logits.end() - 1);
  const TensorSpec per_sample = Real({logits[0]});
  return {.name = "loss",
          .op = SoftmaxCrossEntropy{},
          .inputs = {Real(logits), Whole(labels)},
          .outputs = {per_sample, per_sample}};
}

TEST(CpuSoftmaxCrossEntropy, LargeLogitsDoNotOverflow) {
  CaseValues values;
  values.inputs = {{1e4f, 0.0f, -1e4f}, {std::bit_cast<float>(int32_t{1})}};
  const CaseResult result = RunOn(MakeCpuBackend({}).get(), LossCase({1, 3}), values);
  ASSERT_EQ(result.outputs.size(), 2u);
  EXPECT_EQ(result.outputs[0][0], 1e4f);
  EXPECT_EQ(result.input_grads[0], (std::vector<float>{1.0f, -1.0f, 0.0f}));
}

TEST(CpuSoftmaxCrossEntropy, OfEqualLogitsTheFirstCounts) {
  CaseValues values;
  values.inputs = {{1.0f, 3.0f, 3.0f, 1.0f, 3.0f, 3.0f},
                   {std::bit_cast<float>(int32_t{1}), std::bit_cast<float>(int32_t{2})}};
  const CaseResult result = RunOn(MakeCpuBackend({}).get(), LossCase({2, 3}), values);
  ASSERT_EQ(result.outputs.size(), 2u);
  EXPECT_EQ(result.outputs[1], (std::vector<float>{1.0f, 0.0f}));
}

TEST(CpuDropout, WithoutTrainingIsItsInput) {
  KernelRequest request = {.op = Dropout{},
                           .name = "drop",
                           .inputs = {PlainFormat(Real({2, 3}))},
                           .outputs = {Real({2, 3})},
                           .training = false};
  const auto kernel = MakeCpuBackend({})->Prepare(request);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_TRUE((*kernel)->plan().alias);
}

}  // namespace
}  // namespace soapstone::compute
