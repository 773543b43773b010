// Several models on one device, which is emulated.
#include "compute/cuda/cuda_backend.h"
#include "models/runtime/model_batch_fixture.h"

namespace soapstone::models {
namespace {

std::vector<std::shared_ptr<compute::Backend>> DeviceBackends(const compute::CudaOptions& options,
                                                              size_t count) {
  auto made = compute::MakeCudaBackends(options, count);
  EXPECT_TRUE(made.ok()) << made.status();
  std::vector<std::shared_ptr<compute::Backend>> backends;
  for (auto& backend : *made) backends.push_back(std::move(backend));
  return backends;
}

TEST(ModelBatchDeviceTest, StreamsInTurnGiveTheBitsOfEachAlone) {
  ExpectTheBitsOfEachAlone({"lenet5:tiny", "mlp:tiny", "lenet5:tiny"}, ModelTurns::kInTurn, 2,
                           [](size_t count) { return DeviceBackends({}, count); });
}

// Equal limits and shared measurements: the same algorithms, also for replicas that are one of
// several.
TEST(ModelBatchDeviceTest, SoDoMeasuredAlgorithms) {
  ExpectTheBitsOfEachAlone(
      {"lenet5:tiny", "lenet5:tiny"}, ModelTurns::kInTurn, 1, [](size_t count) {
        return DeviceBackends({.workspace_bytes_total = count * 4096, .measure_algorithms = true},
                              count);
      });
}

TEST(ModelBatchDeviceTest, TheTotalIsDividedByWhatModelsGain) {
  auto made =
      compute::MakeCudaBackends({.workspace_bytes_total = 12 << 10, .measure_algorithms = true}, 2);
  ASSERT_TRUE(made.ok()) << made.status();
  const Graph lenet = *BuildModel("lenet5:tiny", ModelInput{});
  const Graph resnet = *BuildModel("resnet50:tiny", ModelInput{});
  const auto division =
      compute::DivideWorkspace(*made, {PlainRequests(lenet, 8), PlainRequests(resnet, 8)});
  ASSERT_TRUE(division.ok()) << division.status();
  EXPECT_GT(division->bytes[1], division->bytes[0]);  // it has more convolutions
  EXPECT_LE(division->bytes[0] + division->bytes[1], size_t{12} << 10);
  EXPECT_LT(division->divided_seconds, division->equal_seconds);
}

}  // namespace
}  // namespace soapstone::models
