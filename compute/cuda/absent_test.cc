#include "compute/cuda/cuda_backend.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

TEST(CudaAbsentTest, SaysThatItWasBuiltWithout) {
  EXPECT_EQ(CudaDeviceCount(), 0);
  const auto made = MakeCudaBackend({});
  EXPECT_EQ(made.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(made.status().message().find("built without CUDA"), std::string::npos);
}

}  // namespace
}  // namespace soapstone::compute
