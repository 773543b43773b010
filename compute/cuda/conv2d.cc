// Conv2d on the device: cuDNN's convolution, bias and relu in one pass of our own behind it. For
// bf16 its factors are rounded into scratch before, and results widened behind.
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compute/cuda/convolution.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

class Conv2dKernel : public DeviceKernel {
 public:
  Conv2dKernel(const DeviceContext* device, KernelPlan plan, const Conv2d& op,
               const ConvolutionShape& shape, std::unique_ptr<Convolution> convolution, bool half)
      : DeviceKernel(device, std::move(plan)),
        op_(op),
        shape_(shape),
        half_(half),
        convolution_(std::move(convolution)) {}

  // Rounded copies of x, w and y (bf16 only), and what the passes work in.
  struct Scratch {
    uint16_t* x = nullptr;
    uint16_t* w = nullptr;
    uint16_t* y = nullptr;
    uint16_t* dx = nullptr;
    uint16_t* dw = nullptr;
    float* dz = nullptr;  // dy behind relu
    float* partial = nullptr;
    char* workspace = nullptr;
  };
  static Scratch TakeScratch(const ConvolutionShape& shape, bool half, DeviceSections* sections) {
    Scratch s;
    if (!half) return s;
    s.x = sections->Take<uint16_t>(shape.samples * shape.x_of_sample());
    s.w = sections->Take<uint16_t>(shape.weights());
    s.y = sections->Take<uint16_t>(shape.samples * shape.y_of_sample());
    return s;
  }
  static Scratch TakeForward(const ConvolutionShape& shape, const Convolution& convolution,
                             bool half, DeviceSections* sections) {
    Scratch s = TakeScratch(shape, half, sections);
    s.workspace = sections->Take<char>(
        static_cast<int64_t>(convolution.workspace_bytes(ConvolutionPass::kForward)));
    return s;
  }
  static Scratch TakeBackward(const Conv2d& op, const ConvolutionShape& shape,
                              const Convolution& convolution, bool half, DeviceSections* sections) {
    Scratch s = TakeScratch(shape, half, sections);
    if (half) {
      s.dx = sections->Take<uint16_t>(shape.samples * shape.x_of_sample());
      s.dw = sections->Take<uint16_t>(shape.weights());
    }
    if (op.relu) s.dz = sections->Take<float>(shape.samples * shape.y_of_sample());
    if (op.bias) s.partial = sections->Take<float>(ChannelPartials(Channels(shape)));
    s.workspace = sections->Take<char>(
        static_cast<int64_t>(std::max(convolution.workspace_bytes(ConvolutionPass::kInput),
                                      convolution.workspace_bytes(ConvolutionPass::kWeight))));
    return s;
  }

  void RunForward(const ForwardArgs& args) override {
    DeviceSections sections(args.scratch);
    const Scratch s = TakeForward(shape_, *convolution_, half_, &sections);
    float* const y = Floats(args.outputs[0]);
    ConvolutionTensors t{.x = const_cast<void*>(args.inputs[0]),
                         .w = const_cast<float*>(args.params[0]),
                         .y = y,
                         .workspace = s.workspace};
    if (half_) {
      ToBfloat16(stream(), xs(), Floats(args.inputs[0]), s.x);
      ToBfloat16(stream(), shape_.weights(), args.params[0], s.w);
      t = {.x = s.x, .w = s.w, .y = s.y, .workspace = s.workspace};
    }
    convolution_->Run(ConvolutionPass::kForward, t);
    if (half_) FromBfloat16(stream(), ys(), s.y, y);
    if (!op_.bias && !op_.relu) return;
    AddBias(stream(),
            {.outer = shape_.samples,
             .channels = shape_.outputs,
             .inner = shape_.out_height * shape_.out_width,
             .bias = op_.bias ? args.params[1] : nullptr,
             .relu = op_.relu},
            y);
  }

  void RunBackward(const BackwardArgs& args) override {
    DeviceSections sections(args.scratch);
    const Scratch s = TakeBackward(op_, shape_, *convolution_, half_, &sections);
    const float* dy = Floats(args.output_grads[0]);
    if (op_.relu) {
      ActivateBackward(stream(), ys(), {.source = Floats(args.outputs[0]), .dy = dy, .dx = s.dz});
      dy = s.dz;
    }
    if (op_.bias) SumChannels(stream(), Channels(shape_), dy, s.partial, args.param_grads[1]);
    if (half_) {
      ToBfloat16(stream(), ys(), dy, s.y);
      ToBfloat16(stream(), xs(), Floats(args.inputs[0]), s.x);
    }
    ConvolutionTensors t{.x = const_cast<void*>(args.inputs[0]),
                         .w = args.param_grads[0],
                         .y = const_cast<float*>(dy),
                         .workspace = s.workspace};
    if (half_) t = {.x = s.x, .w = s.dw, .y = s.y, .workspace = s.workspace};
    convolution_->Run(ConvolutionPass::kWeight, t);
    if (half_) FromBfloat16(stream(), shape_.weights(), s.dw, args.param_grads[0]);
    if (args.input_grads[0] == nullptr) return;
    t.x = args.input_grads[0];
    t.w = const_cast<float*>(args.params[0]);
    if (half_) {
      ToBfloat16(stream(), shape_.weights(), args.params[0], s.w);
      t.x = s.dx;
      t.w = s.w;
    }
    convolution_->Run(ConvolutionPass::kInput, t);
    if (half_) FromBfloat16(stream(), xs(), s.dx, Floats(args.input_grads[0]));
  }

 private:
  static ChannelShape Channels(const ConvolutionShape& shape) {
    return {shape.samples, shape.outputs, shape.out_height * shape.out_width};
  }
  int64_t xs() const { return shape_.samples * shape_.x_of_sample(); }
  int64_t ys() const { return shape_.samples * shape_.y_of_sample(); }

  const Conv2d op_;
  const ConvolutionShape shape_;
  const bool half_;
  const std::unique_ptr<Convolution> convolution_;
};

ConvolutionShape ShapeOfRequest(const Conv2d& op, const KernelRequest& r) {
  const std::vector<int64_t>& in = r.inputs[0].spec.shape;
  const std::vector<int64_t>& out = r.outputs[0].shape;
  return {.samples = in[0],
          .channels = in[1],
          .height = in[2],
          .width = in[3],
          .outputs = out[1],
          .out_height = out[2],
          .out_width = out[3],
          .window = op.window,
          .groups = op.groups};
}

std::vector<ConvolutionPass> PassesOf(const KernelRequest& r) {
  std::vector<ConvolutionPass> passes = {ConvolutionPass::kForward};
  if (r.training) passes.push_back(ConvolutionPass::kWeight);
  if (r.training && InputGradWanted(r, 0)) passes.push_back(ConvolutionPass::kInput);
  return passes;
}

// Where cuDNN has nothing for bf16 (old devices, odd groups), tf32 is the next best.
// make(*half): `half` is what was taken.
template <typename Make>
auto WithElementType(const DeviceContext* device, const KernelRequest& r, bool* half, Make make)
    -> decltype(make(true)) {
  *half = device->options.precision == CudaPrecision::kBf16;
  auto made = make(*half);
  if (*half && !made.ok()) {
    *half = false;
    made = make(false);
  }
  if (made.ok()) return made;
  return absl::Status(made.status().code(), absl::StrCat(r.name, ": ", made.status().message()));
}

}  // namespace

absl::StatusOr<std::vector<std::vector<MicrobatchPlan>>> MeasurePasses(const DeviceContext* device,
                                                                       const Conv2d& op,
                                                                       const KernelRequest& request,
                                                                       size_t limit_bytes) {
  bool half = false;
  return WithElementType(device, request, &half, [&](bool bfloat16) {
    return Convolution::Measure(device, ShapeOfRequest(op, request), bfloat16, PassesOf(request),
                                limit_bytes);
  });
}

PreparedKernel PrepareOn(const DeviceContext* device, const Conv2d& op, const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const ConvolutionShape shape = ShapeOfRequest(op, r);
  bool half = false;
  SOAP_ASSIGN_OR_RETURN(std::unique_ptr<Convolution> convolution,
                        WithElementType(device, r, &half, [&](bool bfloat16) {
                          return Convolution::Prepare(device, shape, bfloat16, PassesOf(r));
                        }));
  DeviceSections forward(nullptr), backward(nullptr);
  Conv2dKernel::TakeForward(shape, *convolution, half, &forward);
  plan.forward_scratch_bytes = forward.bytes();
  if (r.training) {
    Conv2dKernel::TakeBackward(op, shape, *convolution, half, &backward);
    plan.backward_scratch_bytes = backward.bytes();
  }
  plan.backward_reads_input[0] = true;
  plan.backward_reads_output[0] = op.relu;
  return std::make_unique<Conv2dKernel>(device, std::move(plan), op, shape, std::move(convolution),
                                        half);
}

}  // namespace soapstone::compute
