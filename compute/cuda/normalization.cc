// Batch, layer and response normalisation on the device.
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

// The dimension behind the batch is the channel; those behind it are one.
ChannelShape ChannelsOf(const TensorSpec& spec) {
  ChannelShape shape{.samples = spec.shape[0], .channels = spec.shape[1], .inner = 1};
  for (size_t d = 2; d < spec.shape.size(); ++d) shape.inner *= spec.shape[d];
  return shape;
}

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

class LayerNormKernel : public DeviceKernel {
 public:
  LayerNormKernel(const DeviceContext* device, KernelPlan plan, float epsilon, bool training)
      : DeviceKernel(device, std::move(plan)),
        epsilon_(epsilon),
        training_(training),
        cols_(this->plan().outputs[0].spec.shape.back()),
        rows_(this->plan().outputs[0].spec.elements() / cols_) {}

  void RunForward(const ForwardArgs& args) override {
    LayerNormPass pass{.rows = rows_,
                       .cols = cols_,
                       .epsilon = epsilon_,
                       .weight = args.params[0],
                       .bias = args.params[1]};
    if (training_) {
      DeviceSections saved(args.saved);
      pass.mean = saved.Take<float>(rows_);
      pass.rstd = saved.Take<float>(rows_);
    }
    LayerNormForward(stream(), pass, Floats(args.inputs[0]), Floats(args.outputs[0]));
  }

  void RunBackward(const BackwardArgs& args) override {
    DeviceSections saved(args.saved);
    LayerNormGradient g{.rows = rows_, .cols = cols_};
    g.x = Floats(args.inputs[0]);
    g.dy = Floats(args.output_grads[0]);
    g.mean = saved.Take<float>(rows_);
    g.rstd = saved.Take<float>(rows_);
    g.weight = args.params[0];
    g.dx = Floats(args.input_grads[0]);
    g.dweight = args.param_grads[0];
    g.dbias = args.param_grads[1];
    g.partial = Floats(args.scratch);
    LayerNormBackward(stream(), g);
  }

 private:
  const float epsilon_;
  const bool training_;
  const int64_t cols_, rows_;
};

class ResponseKernel : public DeviceKernel {
 public:
  ResponseKernel(const DeviceContext* device, KernelPlan plan, const ResponsePass& pass)
      : DeviceKernel(device, std::move(plan)), pass_(pass) {}
  void RunForward(const ForwardArgs& args) override {
    ResponseForward(stream(), pass_, Floats(args.inputs[0]),
                    plan().saved_bytes > 0 ? Floats(args.saved) : nullptr, Floats(args.outputs[0]));
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    ResponseBackward(stream(), pass_,
                     {.x = Floats(args.inputs[0]),
                      .s = Floats(args.saved),
                      .dy = Floats(args.output_grads[0]),
                      .dx = Floats(args.input_grads[0])});
  }

 private:
  const ResponsePass pass_;
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

PreparedKernel PrepareOn(const DeviceContext* device, const LayerNorm& op, const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const int64_t cols = r.outputs[0].shape.back();
  const int64_t rows = r.outputs[0].elements() / cols;
  if (r.training) {
    DeviceSections saved(nullptr);
    saved.Take<float>(rows);
    saved.Take<float>(rows);
    plan.saved_bytes = saved.bytes();
    plan.backward_scratch_bytes =
        2 * static_cast<size_t>(ColumnPartials(rows, cols)) * sizeof(float);
    plan.backward_reads_input[0] = true;
    plan.backward_in_place = true;
  } else {
    plan.forward_in_place = true;
  }
  return std::make_unique<LayerNormKernel>(device, std::move(plan), static_cast<float>(op.epsilon),
                                           r.training);
}

PreparedKernel PrepareOn(const DeviceContext* device, const LocalResponseNorm& op,
                         const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  plan.backward_reads_input[0] = true;
  if (r.training) plan.saved_bytes = plan.outputs[0].bytes;
  return std::make_unique<ResponseKernel>(device, std::move(plan),
                                          ResponsePass{.shape = ChannelsOf(r.outputs[0]),
                                                       .size = op.size,
                                                       .alpha = static_cast<float>(op.alpha),
                                                       .beta = static_cast<float>(op.beta),
                                                       .k = static_cast<float>(op.k)});
}

}  // namespace soapstone::compute
