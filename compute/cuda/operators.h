// Each operator's kernel on the device: Prepare of the backend leads here. Errors: what the device
// cannot run.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "compute/cuda/device_context.h"
#include "compute/kernel.h"

namespace soapstone::compute {

// All formats are plain. What is common: the device is the calling thread's before work is asked
// of it; pointers have their types.
class DeviceKernel : public Kernel {
 public:
  DeviceKernel(const DeviceContext* context, KernelPlan plan)
      : Kernel(std::move(plan)), context_(*context) {}
  void Forward(const ForwardArgs& args) final;
  void Backward(const BackwardArgs& args) final;

 protected:
  virtual void RunForward(const ForwardArgs& args) = 0;
  virtual void RunBackward(const BackwardArgs& args) = 0;

  const DeviceContext& context() const { return context_; }
  cudaStream_t stream() const { return context_.stream; }
  void Copy(const void* from, void* to, size_t bytes) const;  // within the device; or nothing
  static const float* Floats(const void* tensor) { return static_cast<const float*>(tensor); }
  static float* Floats(void* tensor) { return static_cast<float*>(tensor); }

 private:
  const DeviceContext& context_;
};

// Plain outputs; Backward reads nothing yet.
KernelPlan PlainPlan(const KernelRequest& request);
bool InputGradWanted(const KernelRequest& request, size_t input);

using PreparedKernel = absl::StatusOr<std::unique_ptr<Kernel>>;

PreparedKernel PrepareOn(const DeviceContext* device, const Linear& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const Conv2d& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const Pool& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const BatchNorm& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const LayerNorm& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const LocalResponseNorm& op,
                         const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const Embedding& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const Lstm& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const MultiHeadAttention& op,
                         const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const AdditiveAttention& op,
                         const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const PairwiseDot& op,
                         const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const Activation& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const Dropout& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const Add& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const Multiply& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const AddParameter& op,
                         const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const Concat& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const Split& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const Reshape& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const Transpose& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const Reduce& op, const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const SoftmaxCrossEntropy& op,
                         const KernelRequest& r);
// Of sections, which run on hosts: Unimplemented.
PreparedKernel PrepareOn(const DeviceContext* device, const BatchMoments& op,
                         const KernelRequest& r);
PreparedKernel PrepareOn(const DeviceContext* device, const NormalizeByMoments& op,
                         const KernelRequest& r);

}  // namespace soapstone::compute
