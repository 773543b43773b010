// Activations, dropout, sums and products, and the parts that all device kernels share.
#include <algorithm>

#include "base/random.h"
#include "base/status_macros.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"
#include "compute/dropout_mask.h"
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

namespace {

DeviceActivation KindOf(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kRelu:
      return DeviceActivation::kRelu;
    case ActivationKind::kTanh:
      return DeviceActivation::kTanh;
    case ActivationKind::kSigmoid:
      return DeviceActivation::kSigmoid;
    case ActivationKind::kGelu:
      return DeviceActivation::kGelu;
  }
  return DeviceActivation::kRelu;
}

class ActivationKernel : public DeviceKernel {
 public:
  ActivationKernel(const DeviceContext* device, KernelPlan plan, DeviceActivation kind)
      : DeviceKernel(device, std::move(plan)), kind_(kind) {}
  void RunForward(const ForwardArgs& args) override {
    ActivateForward(stream(), kind_, elements(), Floats(args.inputs[0]), Floats(args.outputs[0]));
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    const bool of_input = kind_ == DeviceActivation::kGelu;
    ActivateBackward(stream(), elements(),
                     {.kind = kind_,
                      .source = Floats(of_input ? args.inputs[0] : args.outputs[0]),
                      .dy = Floats(args.output_grads[0]),
                      .dx = Floats(args.input_grads[0])});
  }

 private:
  int64_t elements() const { return plan().outputs[0].spec.elements(); }
  const DeviceActivation kind_;
};

class DropoutKernel : public DeviceKernel {
 public:
  DropoutKernel(const DeviceContext* device, KernelPlan plan, const DropoutPass& pass)
      : DeviceKernel(device, std::move(plan)), pass_(pass) {}
  void RunForward(const ForwardArgs& args) override {
    Run(args.step, args.first_sample, args.inputs[0], args.outputs[0]);
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    Run(args.step, args.first_sample, args.output_grads[0], args.input_grads[0]);
  }

 private:
  void Run(uint64_t step, uint64_t first_sample, const void* from, void* to) {
    if (plan().alias) return Copy(from, to, plan().outputs[0].bytes);
    DropoutPass pass = pass_;
    pass.keys = context().keys;
    pass.step = step - (pass.keys != nullptr ? context().recorded_step : 0);
    pass.first_sample = first_sample - (pass.keys != nullptr ? context().recorded_first_sample : 0);
    DropoutElements(stream(), pass, Floats(from), Floats(to));
  }
  const DropoutPass pass_;
};

class AddKernel : public DeviceKernel {
 public:
  AddKernel(const DeviceContext* device, KernelPlan plan, bool relu)
      : DeviceKernel(device, std::move(plan)), relu_(relu) {}
  void RunForward(const ForwardArgs& args) override {
    float* const y = Floats(args.outputs[0]);
    for (size_t next = 0; next < args.inputs.size();) {
      TensorList list;
      if (next > 0) list.x[list.count++] = y;
      while (next < args.inputs.size() && list.count < kTensorsAtOnce) {
        list.x[list.count++] = Floats(args.inputs[next++]);
      }
      const bool last = next == args.inputs.size();
      AddTensors(stream(), list, relu_ && last, plan().outputs[0].spec.elements(), y);
    }
  }
  // Without relu all of them are one, unless the caller has them apart. The first of in-place
  // gradients is written last: it is what the others are made from.
  void RunBackward(const BackwardArgs& args) override {
    for (size_t i = args.input_grads.size(); i-- > 0;) {
      float* const dx = Floats(args.input_grads[i]);
      if (dx == nullptr) continue;
      if (!relu_) {
        Copy(args.output_grads[0], dx, plan().outputs[0].bytes);
        continue;
      }
      ActivateBackward(stream(), plan().outputs[0].spec.elements(),
                       {.kind = DeviceActivation::kRelu,
                        .source = Floats(args.outputs[0]),
                        .dy = Floats(args.output_grads[0]),
                        .dx = dx});
    }
  }

 private:
  const bool relu_;
};

class MultiplyKernel : public DeviceKernel {
 public:
  using DeviceKernel::DeviceKernel;
  void RunForward(const ForwardArgs& args) override {
    Product(args.inputs[0], args.inputs[1], args.outputs[0]);
  }
  void RunBackward(const BackwardArgs& args) override {
    for (size_t i = 2; i-- > 0;) {  // the first may be in place
      if (args.input_grads[i] == nullptr) continue;
      Product(args.output_grads[0], args.inputs[1 - i], args.input_grads[i]);
    }
  }

 private:
  void Product(const void* a, const void* b, void* y) {
    MultiplyTensors(stream(), plan().outputs[0].spec.elements(), Floats(a), Floats(b), Floats(y));
  }
};

class AddParameterKernel : public DeviceKernel {
 public:
  AddParameterKernel(const DeviceContext* device, KernelPlan plan, int64_t samples, int64_t n)
      : DeviceKernel(device, std::move(plan)), samples_(samples), n_(n) {}
  void RunForward(const ForwardArgs& args) override {
    AddToRows(stream(), samples_, n_, Floats(args.inputs[0]), args.params[0],
              Floats(args.outputs[0]));
  }
  void RunBackward(const BackwardArgs& args) override {
    SumColumns(stream(), samples_, n_, Floats(args.output_grads[0]), Floats(args.scratch),
               args.param_grads[0]);
    if (args.input_grads[0] == nullptr) return;
    Copy(args.output_grads[0], args.input_grads[0], plan().outputs[0].bytes);
  }

 private:
  const int64_t samples_, n_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const Activation& op,
                         const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const bool of_input = op.kind == ActivationKind::kGelu;
  plan.backward_reads_input[0] = of_input;
  plan.backward_reads_output[0] = !of_input;
  plan.forward_in_place = !of_input || !r.training;
  plan.backward_in_place = true;
  return std::make_unique<ActivationKernel>(device, std::move(plan), KindOf(op.kind));
}

PreparedKernel PrepareOn(const DeviceContext* device, const Dropout& op, const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  plan.alias = !r.training || op.rate == 0;
  plan.forward_in_place = plan.backward_in_place = true;
  const TensorSpec& spec = r.outputs[0];
  DropoutPass pass;
  pass.seed = r.seed;
  pass.use = static_cast<uint32_t>(RandomUse::kDropout);
  pass.op_index = r.op_index;
  pass.threshold = DropoutThreshold(op.rate);
  pass.scale = static_cast<float>(1 / (1 - op.rate));
  pass.samples = spec.shape[0];
  pass.elements = spec.elements() / std::max<int64_t>(spec.shape[0], 1);
  return std::make_unique<DropoutKernel>(device, std::move(plan), pass);
}

PreparedKernel PrepareOn(const DeviceContext* device, const Add& op, const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  plan.backward_reads_output[0] = op.relu;
  plan.forward_in_place = plan.backward_in_place = true;
  plan.backward_alias = !op.relu;
  return std::make_unique<AddKernel>(device, std::move(plan), op.relu);
}

PreparedKernel PrepareOn(const DeviceContext* device, const Multiply& /*op*/,
                         const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  plan.backward_reads_input = {true, true};
  plan.forward_in_place = !r.training;
  plan.backward_in_place = true;
  return std::make_unique<MultiplyKernel>(device, std::move(plan));
}

PreparedKernel PrepareOn(const DeviceContext* device, const AddParameter& /*op*/,
                         const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const int64_t samples = r.outputs[0].shape[0];
  const int64_t n = r.params[0].elements();
  plan.forward_in_place = plan.backward_in_place = true;
  plan.backward_scratch_bytes = static_cast<size_t>(ColumnPartials(samples, n)) * sizeof(float);
  return std::make_unique<AddParameterKernel>(device, std::move(plan), samples, n);
}

}  // namespace soapstone::compute
