// A step of small models with factors in bf16 beside the same in float32.
#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "compute/cpu/backend.h"
#include "compute/init.h"
#include "gtest/gtest.h"
#include "models/runtime/graph_runner.h"
#include "models/zoo/zoo.h"

namespace soapstone::models {
namespace {

struct StepResult {
  double loss = 0;
  std::vector<float> gradient;  // of all parameters, one behind the other
};

// Inputs are normal, integers below the number of classes.
StepResult StepOf(const Graph& graph, compute::CpuPrecision precision, int64_t samples) {
  const std::unique_ptr<GraphRunner> replica = *GraphRunner::Create(
      graph, {.backend = compute::MakeCpuBackend({.threads = 1, .precision = precision})});
  for (uint32_t p = 0; p < graph.params().size(); ++p) {
    compute::InitSlice(graph.params()[p], 5, ParamId{p}, 0, replica->param(ParamId{p}));
  }
  std::vector<std::vector<float>> fields;
  std::vector<const void*> pointers;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Tensor& tensor = graph.tensor(graph.inputs()[i]);
    const CounterRandom random(9, RandomUse::kTest, i);
    std::vector<float>& field =
        fields.emplace_back(static_cast<size_t>(tensor.spec(samples).elements()));
    for (size_t e = 0; e < field.size(); ++e) {
      field[e] = tensor.type == DataType::kInt32
                     ? std::bit_cast<float>(static_cast<int32_t>(random.Below(e, graph.classes())))
                     : static_cast<float>(random.Normal(e));
    }
  }
  for (const std::vector<float>& field : fields) pointers.push_back(field.data());
  EXPECT_TRUE(replica->Begin(samples, pointers).ok());
  for (size_t op = 0; op < graph.ops().size(); ++op) replica->ForwardOp(op);
  StepResult result = {.loss = replica->loss_sum()};
  for (size_t op = graph.ops().size(); op-- > 0;) {
    std::vector<std::vector<float>> values;
    for (const ParamId param : graph.ops()[op].params) {
      values.emplace_back(graph.params()[Index(param)].elements());
    }
    std::vector<absl::Span<float>> spans;
    for (std::vector<float>& value : values) spans.push_back(absl::MakeSpan(value));
    replica->BackwardOp(op, spans);
    for (const std::vector<float>& value : values) {
      result.gradient.insert(result.gradient.end(), value.begin(), value.end());
    }
  }
  return result;
}

double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

class StepInBf16 : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, StepInBf16,
                         testing::Values("lenet5:tiny", "alexnet:tiny", "resnet50:tiny",
                                         "transformer_lm:tiny", "rnnlm:tiny,hidden=64"),
                         [](const testing::TestParamInfo<std::string>& info) {
                           return info.param.substr(0, info.param.find(':'));
                         });

TEST_P(StepInBf16, IsNearThatInFloat32) {
  const absl::Status has = compute::CheckCpuPrecision(compute::CpuPrecision::kBf16);
  if (!has.ok()) GTEST_SKIP() << "NOT TESTED: " << has.message();
  const Graph graph = *BuildModel(GetParam(), ModelInput{});
  const StepResult want = StepOf(graph, compute::CpuPrecision::kFloat32, 8);
  const StepResult got = StepOf(graph, compute::CpuPrecision::kBf16, 8);
  EXPECT_NEAR(got.loss, want.loss, 0.01 * want.loss);
  EXPECT_NE(got.gradient, want.gradient);  // bf16 took part
  EXPECT_GT(Cosine(got.gradient, want.gradient), 0.99);
}

}  // namespace
}  // namespace soapstone::models
