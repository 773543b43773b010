// BatchNorm on the device.
#include <memory>
#include <utility>

#include "compute/cuda/channel_shape.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

class BatchNormKernel : public DeviceKernel {
 public:
  BatchNormKernel(const DeviceContext* device, KernelPlan plan, const BatchNorm& op, bool training)
      : DeviceKernel(device, std::move(plan)),
        op_(op),
        training_(training),
        shape_(ChannelsOf(this->plan().outputs[0].spec)) {}

  static ChannelStatistics Statistics(DeviceSections* sections, int64_t channels) {
    ChannelStatistics s;
    s.mean = sections->Take<float>(channels);
    s.rstd = sections->Take<float>(channels);
    s.variance = sections->Take<float>(channels);
    return s;
  }

  void RunForward(const ForwardArgs& args) override {
    const float* const x = Floats(args.inputs[0]);
    NormalizePass pass{.weight = args.params[0], .bias = args.params[1], .relu = op_.relu};
    const float epsilon = static_cast<float>(op_.epsilon);
    if (training_) {
      DeviceSections saved(args.saved);
      const ChannelStatistics now = Statistics(&saved, shape_.channels);
      BatchStatistics(stream(), shape_, x, epsilon, now, Floats(args.scratch));
      pass.mean = now.mean;
      pass.rstd = now.rstd;
    } else {
      float* const rstd = Floats(args.scratch);
      InverseDeviation(stream(), shape_.channels, args.params[3], epsilon, rstd);
      pass.mean = args.params[2];
      pass.rstd = rstd;
    }
    NormalizeChannels(stream(), shape_, pass, x, Floats(args.outputs[0]));
  }

  void RunBackward(const BackwardArgs& args) override {
    DeviceSections saved(args.saved);
    const ChannelStatistics then = Statistics(&saved, shape_.channels);
    BatchNormBackward(stream(), shape_,
                      {.x = Floats(args.inputs[0]),
                       .y = op_.relu ? Floats(args.outputs[0]) : nullptr,
                       .dy = Floats(args.output_grads[0]),
                       .dx = Floats(args.input_grads[0]),
                       .mean = then.mean,
                       .rstd = then.rstd,
                       .weight = args.params[0],
                       .dweight = args.param_grads[0],
                       .dbias = args.param_grads[1],
                       .partial = Floats(args.scratch)});
    const float n = static_cast<float>(shape_.per_channel());
    RunningStatistics(stream(), shape_.channels,
                      {.mean = then.mean,
                       .variance = then.variance,
                       .running_mean = args.params[2],
                       .running_variance = args.params[3],
                       .dmean = args.param_grads[2],
                       .dvariance = args.param_grads[3],
                       .samples = static_cast<float>(shape_.samples),
                       .unbias = n > 1 ? n / (n - 1) : 1});
  }

 private:
  const BatchNorm op_;
  const bool training_;
  const ChannelShape shape_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const BatchNorm& op, const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const ChannelShape shape = ChannelsOf(r.outputs[0]);
  const size_t partial = static_cast<size_t>(ChannelPartials(shape)) * sizeof(float);
  if (r.training) {
    DeviceSections saved(nullptr);
    BatchNormKernel::Statistics(&saved, shape.channels);
    plan.saved_bytes = saved.bytes();
    plan.forward_scratch_bytes = partial;
    plan.backward_scratch_bytes = partial;
    plan.backward_reads_input[0] = true;
    plan.backward_reads_output[0] = op.relu;
    plan.backward_in_place = true;
  } else {
    plan.forward_scratch_bytes = static_cast<size_t>(shape.channels) * sizeof(float);
    plan.forward_in_place = true;
  }
  return std::make_unique<BatchNormKernel>(device, std::move(plan), op, r.training);
}

}  // namespace soapstone::compute
