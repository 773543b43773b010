// What a program is told where it was built with CUDA; runs with and without a device.
#include <cstdio>
#include <string>

#include "compute/cuda/cuda_backend.h"
#include "compute/cuda/libraries.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

TEST(CudaStatusTest, ANegativeOrdinalIsRefused) {
  const auto made = MakeCudaBackend({.device = -1});
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CudaStatusTest, WithoutADeviceTheErrorSaysWhatToDo) {
  if (CudaDeviceCount() > 0) {
    std::fprintf(stderr, "SKIPPED: this machine has a CUDA device\n");
    GTEST_SKIP() << "this machine has a CUDA device";
  }
  const auto made = MakeCudaBackend({});
  EXPECT_EQ(made.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(made.status().message().find("no CUDA device"), std::string::npos);
  EXPECT_NE(made.status().message().find("or compute on the cpu"), std::string::npos);
  EXPECT_EQ(made.status().message().find('\n'), std::string::npos);
}

TEST(CudaStatusTest, AnOrdinalBeyondTheLastIsRefused) {
  const int count = CudaDeviceCount();
  if (count == 0) {
    std::fprintf(stderr, "SKIPPED: no CUDA device\n");
    GTEST_SKIP() << "no CUDA device";
  }
  const auto made = MakeCudaBackend({.device = count});
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
}

// Loads them, which needs no device; programs before this did not.
TEST(CudaStatusTest, TheLibrariesHaveAllFunctions) {
  const auto libraries = LoadDeviceLibraries();
  if (!libraries.ok()) {
    const std::string said(libraries.status().message());
    ASSERT_NE(said.find("LD_LIBRARY_PATH"), std::string::npos) << said;
    std::fprintf(stderr, "SKIPPED: %s\n", said.c_str());
    GTEST_SKIP() << said;
  }
  EXPECT_NE((*libraries)->cublasGemmStridedBatchedEx_64, nullptr);
  EXPECT_NE((*libraries)->cudnnConvolutionBackwardFilter, nullptr);
}

}  // namespace
}  // namespace soapstone::compute
