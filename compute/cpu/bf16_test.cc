// Every case of every operator with factors in bf16, against the reference in float32. Where the
// processor has no bf16 these tests are skipped, and say so.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compute/cpu/backend.h"
#include "compute/cpu/gemm.h"
#include "compute/cpu/gemm_primitive.h"
#include "compute/reference/backend.h"
#include "compute/testing/operator_cases.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

// A factor is rounded to 8 bits, by 2^-9 of itself at most, and so each term of a sum of products
// by 2^-8. Errors are of either sign: those of a sum are as large beside it as those of its terms
// are beside them, or smaller. What is rounded again, as a gradient behind a product, adds as much.
constexpr double kRoundedOnce = 1.0 / 256;

// ThreadSanitizer does not see how the OpenMP runtime orders its threads.
#ifdef __SANITIZE_THREAD__
constexpr int kThreads = 1;
#else
constexpr int kThreads = 2;
#endif

CpuOptions Bf16(int threads = 1) { return {.threads = threads, .precision = CpuPrecision::kBf16}; }

// An LSTM's products follow one another. A bias's gradient is a sum of one factor's elements, which
// may cancel each other: their rounding weighs more beside it.
double BoundOf(const OperatorCase& c, const std::string& tensor) {
  const bool bias = tensor == "parameter gradient 1";
  return std::holds_alternative<Lstm>(c.op) || bias ? 4 * kRoundedOnce : kRoundedOnce;
}

TensorSpec FloatsOf(std::vector<int64_t> shape) { return {.shape = std::move(shape)}; }

// With sides that are worth rounding.
std::vector<OperatorCase> LargeProducts() {
  const int64_t rows = kRowsWorthRounding, side = kSideWorthRounding;
  const std::vector<int64_t> gates = {4 * side};
  return {
      {.name = "large_linear",
       .op = Linear{.outputs = side + 6},
       .inputs = {FloatsOf({rows + 2, side + 1})},
       .params = {FloatsOf({side + 6, side + 1}), FloatsOf({side + 6})},
       .outputs = {FloatsOf({rows + 2, side + 6})}},
      {.name = "large_linear_of_sequences",
       .op = Linear{.outputs = side, .bias = false},
       .inputs = {FloatsOf({2, rows / 2, side})},
       .params = {FloatsOf({side, side})},
       .outputs = {FloatsOf({2, rows / 2, side})}},
      {.name = "large_lstm",
       .op = Lstm{.hidden = side},
       .inputs = {FloatsOf({rows / 5 + 1, 5, side})},
       .params = {FloatsOf({4 * side, side}), FloatsOf({4 * side, side}), FloatsOf(gates)},
       .outputs = {FloatsOf({rows / 5 + 1, 5, side})}},
      {.name = "large_lstm_with_state",
       .op = Lstm{.hidden = side, .state = true, .reverse = true},
       .inputs = {FloatsOf({rows / 5 + 1, 5, side}), FloatsOf({rows / 5 + 1, side}),
                  FloatsOf({rows / 5 + 1, side})},
       .params = {FloatsOf({4 * side, side}), FloatsOf({4 * side, side}), FloatsOf(gates)},
       .outputs = {FloatsOf({rows / 5 + 1, 5, side}), FloatsOf({rows / 5 + 1, side}),
                   FloatsOf({rows / 5 + 1, side})}},
  };
}

constexpr double kFloat32Error = 1e-5;
bool Rounds(const OperatorCase& c) {
  return std::holds_alternative<Conv2d>(c.op) || c.name.starts_with("large_");
}

std::vector<OperatorCase> CasesInBf16() {
  std::vector<OperatorCase> cases = OperatorCases();
  for (OperatorCase& c : LargeProducts()) cases.push_back(std::move(c));
  return cases;
}

// LSTM's weights as they are initialized: gates of random ones in [-1, 1) are all saturated.
CaseValues SmallerWeights(const OperatorCase& c) {
  CaseValues values = ValuesOf(c, 1);
  if (!std::holds_alternative<Lstm>(c.op)) return values;
  for (std::vector<float>& param : values.params) {
    for (float& v : param) v /= 8;
  }
  return values;
}

// Each with its name, outputs first.
struct NamedValues {
  std::string name;
  std::vector<float> values;
};
std::vector<NamedValues> AllOf(const CaseResult& result) {
  std::vector<NamedValues> all;
  const auto add = [&](const char* what, const std::vector<std::vector<float>>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) all.push_back({absl::StrCat(what, i), tensors[i]});
  };
  add("output ", result.outputs);
  add("input gradient ", result.input_grads);
  add("parameter gradient ", result.param_grads);
  return all;
}

class EveryCaseInBf16 : public testing::TestWithParam<OperatorCase> {
 protected:
  void SetUp() override {
    const absl::Status has = CheckCpuPrecision(CpuPrecision::kBf16);
    if (!has.ok()) GTEST_SKIP() << "NOT TESTED: " << has.message();
  }
};
INSTANTIATE_TEST_SUITE_P(Cpu, EveryCaseInBf16, testing::ValuesIn(CasesInBf16()),
                         [](const testing::TestParamInfo<OperatorCase>& info) {
                           return info.param.name;
                         });

TEST_P(EveryCaseInBf16, IsNearTheReference) {
  const OperatorCase& c = GetParam();
  const CaseValues values = SmallerWeights(c);
  const auto want = AllOf(*RunCase(MakeReferenceBackend().get(), c, values));
  const auto got = AllOf(*RunCase(MakeCpuBackend(Bf16()).get(), c, values));
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i].values.empty()) continue;
    const double error = RelativeError(got[i].values, want[i].values);
    const double bound = BoundOf(c, want[i].name);
    EXPECT_LE(error, bound) << want[i].name;
    EXPECT_EQ(error > kFloat32Error, Rounds(c)) << want[i].name;
    // What the bound would not let pass.
    std::vector<float> wrong = got[i].values;
    for (float& v : wrong) v *= 1.05f;
    const bool none = std::all_of(wrong.begin(), wrong.end(), [](float v) { return v == 0; });
    EXPECT_TRUE(none || RelativeError(wrong, want[i].values) > bound) << want[i].name;
  }
}

TEST_P(EveryCaseInBf16, HasTheSameBitsTwice) {
  const OperatorCase& c = GetParam();
  if (!Rounds(c)) return;  // as in float32, where all are compared
  const CaseValues values = SmallerWeights(c);
  const CaseResult a = *RunCase(MakeCpuBackend(Bf16(kThreads)).get(), c, values);
  const CaseResult b = *RunCase(MakeCpuBackend(Bf16(kThreads)).get(), c, values);
  EXPECT_EQ(a.outputs, b.outputs);
  EXPECT_EQ(a.input_grads, b.input_grads);
  EXPECT_EQ(a.param_grads, b.param_grads);
}

}  // namespace
}  // namespace soapstone::compute
