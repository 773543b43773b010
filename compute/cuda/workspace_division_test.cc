// One total of workspace for several backends. On the emulated device, whose times are made up: a
// pass over b samples takes 0.1 + b ms with b KiB of workspace, 0.1 + 4 b ms without.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compute/cuda/cuda_backend.h"
#include "compute/reference/backend.h"
#include "compute/testing/operator_cases.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

constexpr size_t kKiB = 1024;

TensorSpec RealsOf(std::vector<int64_t> shape) { return {DataType::kFloat32, std::move(shape)}; }

// Eight samples; three passes.
OperatorCase SmallConvolution(int64_t channels) {
  return {"conv",
          Conv2d{.channels = channels, .window = Window::Square(3, 1, 1)},
          {RealsOf({8, 2, 4, 4})},
          {RealsOf({channels, 2, 3, 3}), RealsOf({channels})},
          {RealsOf({8, channels, 4, 4})}};
}

std::vector<KernelRequest> RequestsOf(size_t convolutions) {
  std::vector<KernelRequest> requests = {RequestOf({"linear",
                                                    Linear{.outputs = 3},
                                                    {RealsOf({8, 5})},
                                                    {RealsOf({3, 5}), RealsOf({3})},
                                                    {RealsOf({8, 3})}})};
  for (size_t i = 0; i < convolutions; ++i) {
    requests.push_back(RequestOf(SmallConvolution(static_cast<int64_t>(i) + 1)));
  }
  return requests;
}

std::vector<std::unique_ptr<Backend>> MakeTwo(size_t total) {
  auto made = MakeCudaBackends({.workspace_bytes_total = total, .measure_algorithms = true}, 2);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

size_t ForwardScratch(Backend* backend) {
  const auto kernel = backend->Prepare(RequestOf(SmallConvolution(1)));
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return (*kernel)->plan().forward_scratch_bytes;
}

TEST(WorkspaceDivisionTest, BackendsMadeTogetherHaveEqualParts) {
  const auto backends = MakeTwo(16 * kKiB);
  EXPECT_EQ(ForwardScratch(backends[0].get()), 8 * kKiB);  // all samples at once
  EXPECT_EQ(ForwardScratch(backends[1].get()), 8 * kKiB);
  EXPECT_EQ(ForwardScratch(MakeTwo(5 * kKiB)[1].get()), 2 * kKiB);
}

// 8 samples in micro-batches of 1 take 8.8 ms, of 2 8.4 ms. Equal parts hold 1 KiB each; but 2 KiB
// for the nine passes of one model and 1 KiB for the three of the other fit as well.
TEST(WorkspaceDivisionTest, MoreGoesWhereItSavesMore) {
  const auto backends = MakeTwo(3 * kKiB + 200);
  const auto division = DivideWorkspace(backends, {RequestsOf(1), RequestsOf(3)});
  ASSERT_TRUE(division.ok()) << division.status();
  EXPECT_NEAR(division->equal_seconds, 12 * 8.8e-3, 1e-6);
  EXPECT_NEAR(division->divided_seconds, 3 * 8.8e-3 + 9 * 8.4e-3, 1e-6);
  EXPECT_GE(division->bytes[0], kKiB);
  EXPECT_GE(division->bytes[1], 2 * kKiB);
  EXPECT_LE(division->bytes[0] + division->bytes[1], 3 * kKiB + 200);
  // It is what kernels are prepared with from now on.
  EXPECT_EQ(ForwardScratch(backends[0].get()), kKiB);
  EXPECT_EQ(ForwardScratch(backends[1].get()), 2 * kKiB);
}

TEST(WorkspaceDivisionTest, ItChangesNoResult) {
  const auto backends = MakeTwo(3 * kKiB + 200);
  ASSERT_TRUE(DivideWorkspace(backends, {RequestsOf(1), RequestsOf(3)}).ok());
  const OperatorCase c = SmallConvolution(3);
  const CaseValues values = ValuesOf(c, 1);
  const auto expected = RunCase(MakeReferenceBackend().get(), c, values);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const auto& backend : backends) {
    const auto got = RunCase(backend.get(), c, values);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_LE(RelativeError(got->outputs[0], expected->outputs[0]), 2e-5);
    EXPECT_LE(RelativeError(got->param_grads[0], expected->param_grads[0]), 2e-5);
    EXPECT_LE(RelativeError(got->input_grads[0], expected->input_grads[0]), 2e-5);
  }
}

TEST(WorkspaceDivisionTest, WithoutConvolutionsNothingIsNeeded) {
  const auto backends = MakeTwo(kKiB);
  const auto division = DivideWorkspace(backends, {RequestsOf(0), RequestsOf(0)});
  ASSERT_TRUE(division.ok()) << division.status();
  EXPECT_EQ(division->bytes, (std::vector<size_t>{0, 0}));
  EXPECT_EQ(division->divided_seconds, 0);
}

}  // namespace
}  // namespace soapstone::compute
