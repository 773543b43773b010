// The optimizers' kernel: arguments rounded once to float32, as OptimizerPass is for the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace soapstone::compute {

enum class DeviceOptimizer : int { kSgd, kMomentum, kAdagrad, kRmsprop, kAdam, kFtrl };

struct DeviceOptimizerPass {
  DeviceOptimizer kind = DeviceOptimizer::kSgd;
  bool nesterov = false;
  int64_t n = 0;
  const float* gradient = nullptr;
  float* w = nullptr;
  float* first = nullptr;
  float* second = nullptr;
  float lr = 0, scale = 0, l2 = 0, keep = 1, rate = 0, unbias = 0;
  float mu = 0, beta1 = 0, rest1 = 0, beta2 = 0, rest2 = 0, rho = 0, rest_rho = 0, eps = 0;
  float beta = 0, l1 = 0, ftrl_l2 = 0;
};
void RunOptimizer(cudaStream_t stream, const DeviceOptimizerPass& pass);

}  // namespace soapstone::compute
