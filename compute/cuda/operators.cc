#include "compute/cuda/operators.h"

#include "base/status_macros.h"
#include "glog/logging.h"

namespace soapstone::compute {

void DeviceKernel::Forward(const ForwardArgs& args) {
  SOAP_DEVICE_OR_DIE(cudaSetDevice(context_.options.device));
  RunForward(args);
}

void DeviceKernel::Backward(const BackwardArgs& args) {
  SOAP_DEVICE_OR_DIE(cudaSetDevice(context_.options.device));
  RunBackward(args);
}

void DeviceKernel::Copy(const void* from, void* to, size_t bytes) const {
  if (from == to || bytes == 0) return;
  SOAP_DEVICE_OR_DIE(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()));
}

KernelPlan PlainPlan(const KernelRequest& request) {
  KernelPlan plan;
  for (const TensorSpec& spec : request.outputs) plan.outputs.push_back(PlainFormat(spec));
  plan.backward_reads_input.assign(request.inputs.size(), false);
  plan.backward_reads_output.assign(request.outputs.size(), false);
  return plan;
}

bool InputGradWanted(const KernelRequest& request, size_t input) {
  return input < request.input_grads_wanted.size() && request.input_grads_wanted[input];
}

}  // namespace soapstone::compute
