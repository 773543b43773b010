// The optimizers of compute/optimizer_pass.h for the device, in the same operations and order.
// Compiled without fused multiply-add, so that the bits are those of the host.
#include "compute/cuda/launch.h"
#include "compute/cuda/optimizer_kernel.h"

namespace soapstone::compute {
namespace {

struct OptimizerElement {
  DeviceOptimizerPass p;

  SOAP_DEVICE float Gradient(int64_t i) const {
    const float g = p.scale * p.gradient[i];
    return p.l2 != 0 ? g + p.l2 * p.w[i] : g;
  }
  SOAP_DEVICE void Momentum(int64_t i, float g) const {
    const float v = p.mu * p.first[i] + g;
    p.first[i] = v;
    p.w[i] = p.nesterov ? p.w[i] - p.lr * (g + p.mu * v) : p.w[i] - p.lr * v;
  }
  SOAP_DEVICE void Adam(int64_t i, float g) const {
    const float m = p.beta1 * p.first[i] + p.rest1 * g;
    const float s = p.beta2 * p.second[i] + p.rest2 * (g * g);
    p.first[i] = m;
    p.second[i] = s;
    p.w[i] = p.keep * p.w[i] - p.rate * (m / (sqrtf(s * p.unbias) + p.eps));
  }
  SOAP_DEVICE void Ftrl(int64_t i, float g) const {
    if (!(p.lr > 0)) return;
    const float start = p.beta / p.lr + p.ftrl_l2;
    const float w = p.w[i];
    const float n = p.second[i];
    const float l1_of_w = w > 0 ? p.l1 : w < 0 ? -p.l1 : 0.0f;
    const float z_before = n == 0 ? -w * start - l1_of_w : p.first[i];
    const float n_now = n + g * g;
    const float root = sqrtf(n_now);
    const float z_now = z_before + (g - (root - sqrtf(n)) / p.lr * w);
    const float beyond = fabsf(z_now) - p.l1;
    const float step = beyond / ((p.beta + root) / p.lr + p.ftrl_l2);
    p.first[i] = z_now;
    p.second[i] = n_now;
    p.w[i] = beyond > 0 ? (z_now > 0 ? -step : step) : 0.0f;
  }
  SOAP_DEVICE void operator()(int64_t i) const {
    switch (p.kind) {
      case DeviceOptimizer::kSgd:
        p.w[i] = p.w[i] - p.lr * Gradient(i);
        return;
      case DeviceOptimizer::kMomentum:
        return Momentum(i, Gradient(i));
      case DeviceOptimizer::kAdagrad: {
        const float g = Gradient(i);
        const float s = p.second[i] + g * g;
        p.second[i] = s;
        p.w[i] = p.w[i] - p.lr * (g / (sqrtf(s) + p.eps));
        return;
      }
      case DeviceOptimizer::kRmsprop: {
        const float g = Gradient(i);
        const float s = p.rho * p.second[i] + p.rest_rho * (g * g);
        p.second[i] = s;
        p.w[i] = p.w[i] - p.lr * (g / (sqrtf(s) + p.eps));
        return;
      }
      case DeviceOptimizer::kAdam:
        return Adam(i, Gradient(i));
      case DeviceOptimizer::kFtrl:
        return Ftrl(i, p.scale * p.gradient[i]);
    }
  }
};

}  // namespace

void RunOptimizer(cudaStream_t stream, const DeviceOptimizerPass& pass) {
  ForEach(stream, pass.n, OptimizerElement{pass});
}

}  // namespace soapstone::compute
