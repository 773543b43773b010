// Lstm on the device. As on the host: one product for X of all time steps, one a step for h; the
// gates of all steps are kept. Not cuDNN's, whose packed weights and gate order would be a second
// form of the parameters.
#include "compute/cuda/gemm.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

struct LstmSizes {
  int64_t samples = 0, steps = 0, features = 0, hidden = 0;
  int64_t rows() const { return samples * steps; }
};

// gates [N, T, 4H] and c [N, T, H], both of Forward for Backward.
struct LstmSaved {
  float* gates = nullptr;
  float* c = nullptr;
};
LstmSaved TakeSaved(const LstmSizes& sizes, DeviceSections* sections) {
  LstmSaved saved;
  saved.gates = sections->Take<float>(sizes.rows() * 4 * sizes.hidden);
  saved.c = sections->Take<float>(sizes.rows() * sizes.hidden);
  return saved;
}

struct LstmScratch {
  float* dgates = nullptr;  // [N, T, 4H]
  float* before = nullptr;  // [N, T, H]: h of the step before
  float* dh = nullptr;      // [N, H]
  float* dc = nullptr;      // [N, H]
  float* partial = nullptr;
};
LstmScratch TakeScratch(const LstmSizes& sizes, DeviceSections* sections) {
  LstmScratch scratch;
  scratch.dgates = sections->Take<float>(sizes.rows() * 4 * sizes.hidden);
  scratch.before = sections->Take<float>(sizes.rows() * sizes.hidden);
  scratch.dh = sections->Take<float>(sizes.samples * sizes.hidden);
  scratch.dc = sections->Take<float>(sizes.samples * sizes.hidden);
  scratch.partial = sections->Take<float>(ColumnPartials(sizes.rows(), 4 * sizes.hidden));
  return scratch;
}

class LstmKernel : public DeviceKernel {
 public:
  LstmKernel(const DeviceContext* device, KernelPlan plan, const Lstm& op, const LstmSizes& sizes,
             bool training)
      : DeviceKernel(device, std::move(plan)), op_(op), sizes_(sizes), training_(training) {}

  void RunForward(const ForwardArgs& args) override {
    DeviceSections sections(training_ ? args.saved : args.scratch);
    const LstmSaved saved = TakeSaved(sizes_, &sections);
    const int64_t h = sizes_.hidden;
    Gemm(context(), {.m = sizes_.rows(), .n = 4 * h, .k = sizes_.features},
         {.data = Floats(args.inputs[0]), .row_stride = sizes_.features},
         {.data = args.params[0], .row_stride = sizes_.features, .transposed = true},
         {.data = saved.gates, .row_stride = 4 * h});
    float* const y = Floats(args.outputs[0]);
    for (int64_t i = 0; i < sizes_.steps; ++i) ForwardStep(args, saved, i);
    if (!op_.state) return;
    const int64_t last = StepAt(sizes_.steps - 1);
    CopyRows(y + last * h, sizes_.steps * h, Floats(args.outputs[1]), h);
    CopyRows(saved.c + last * h, sizes_.steps * h, Floats(args.outputs[2]), h);
  }

  void RunBackward(const BackwardArgs& args) override {
    DeviceSections saved_sections(args.saved), scratch_sections(args.scratch);
    const LstmSaved saved = TakeSaved(sizes_, &saved_sections);
    const LstmScratch scratch = TakeScratch(sizes_, &scratch_sections);
    for (int64_t i = sizes_.steps; i-- > 0;) BackwardStep(args, saved, scratch, i);
    ParamGradients(args, scratch);
    const int64_t h = sizes_.hidden;
    if (args.input_grads[0] != nullptr) {
      Gemm(context(), {.m = sizes_.rows(), .n = sizes_.features, .k = 4 * h},
           {.data = scratch.dgates, .row_stride = 4 * h},
           {.data = args.params[0], .row_stride = sizes_.features},
           {.data = Floats(args.input_grads[0]), .row_stride = sizes_.features});
    }
    if (!op_.state) return;
    const size_t bytes = static_cast<size_t>(sizes_.samples * h) * sizeof(float);
    if (args.input_grads[1] != nullptr) {
      HiddenGradient(args, scratch, StepAt(0), Floats(args.input_grads[1]));
    }
    if (args.input_grads[2] != nullptr) Copy(scratch.dc, args.input_grads[2], bytes);
  }

 private:
  int64_t StepAt(int64_t i) const { return op_.reverse ? sizes_.steps - 1 - i : i; }

  void CopyRows(const float* from, int64_t from_stride, float* to, int64_t to_stride) const {
    CopySection(stream(), {.rows = sizes_.samples,
                           .width = sizes_.hidden,
                           .from = from,
                           .from_stride = from_stride,
                           .to = to,
                           .to_stride = to_stride});
  }

  // h and c before the i-th step in time.
  struct Before {
    const float* h = nullptr;
    int64_t h_stride = 0;
    const float* c = nullptr;
    int64_t c_stride = 0;
  };
  Before BeforeStep(absl::Span<const void* const> inputs, const float* y, const float* c,
                    int64_t i) const {
    const int64_t h = sizes_.hidden, all = sizes_.steps * h;
    if (i > 0) {
      const int64_t at = StepAt(i - 1) * h;
      return {y + at, all, c + at, all};
    }
    if (!op_.state) return {};
    return {Floats(inputs[1]), h, Floats(inputs[2]), h};
  }

  void ForwardStep(const ForwardArgs& args, const LstmSaved& saved, int64_t i) {
    const int64_t h = sizes_.hidden, t = StepAt(i);
    float* const y = Floats(args.outputs[0]);
    float* const gates = saved.gates + t * 4 * h;
    const Before before = BeforeStep(args.inputs, y, saved.c, i);
    if (before.h != nullptr) {
      Gemm(context(), {.m = sizes_.samples, .n = 4 * h, .k = h},
           {.data = before.h, .row_stride = before.h_stride},
           {.data = args.params[1], .row_stride = h, .transposed = true},
           {.data = gates, .row_stride = sizes_.steps * 4 * h, .add = true});
    }
    LstmCellForward(stream(), {.samples = sizes_.samples,
                               .hidden = h,
                               .gates = gates,
                               .gate_stride = sizes_.steps * 4 * h,
                               .bias = args.params[2],
                               .c_before = before.c,
                               .c_before_stride = before.c_stride,
                               .c = saved.c + t * h,
                               .c_stride = sizes_.steps * h,
                               .h = y + t * h,
                               .h_stride = sizes_.steps * h});
  }

  // ∂L/∂h before step t, from the gates of t: to [N, H]
  void HiddenGradient(const BackwardArgs& args, const LstmScratch& scratch, int64_t t, float* to) {
    const int64_t h = sizes_.hidden;
    Gemm(context(), {.m = sizes_.samples, .n = h, .k = 4 * h},
         {.data = scratch.dgates + t * 4 * h, .row_stride = sizes_.steps * 4 * h},
         {.data = args.params[1], .row_stride = h}, {.data = to, .row_stride = h});
  }

  void BackwardStep(const BackwardArgs& args, const LstmSaved& saved, const LstmScratch& scratch,
                    int64_t i) {
    const int64_t h = sizes_.hidden, t = StepAt(i);
    const bool last = i == sizes_.steps - 1;
    const Before before = BeforeStep(args.inputs, Floats(args.outputs[0]), saved.c, i);
    if (!last) HiddenGradient(args, scratch, StepAt(i + 1), scratch.dh);
    const float* const dh_end = op_.state ? Floats(args.output_grads[1]) : nullptr;
    const float* const dc_end = op_.state ? Floats(args.output_grads[2]) : nullptr;
    LstmCellBackward(stream(), {.samples = sizes_.samples,
                                .hidden = h,
                                .gates = saved.gates + t * 4 * h,
                                .dgates = scratch.dgates + t * 4 * h,
                                .gate_stride = sizes_.steps * 4 * h,
                                .c = saved.c + t * h,
                                .c_before = before.c,
                                .c_stride = sizes_.steps * h,
                                .c_before_stride = before.c_stride,
                                .dy = Floats(args.output_grads[0]) + t * h,
                                .dy_stride = sizes_.steps * h,
                                .dh = last ? dh_end : scratch.dh,
                                .dc_in = last ? dc_end : scratch.dc,
                                .dc_out = scratch.dc});
  }

  void ParamGradients(const BackwardArgs& args, const LstmScratch& scratch) {
    const int64_t h = sizes_.hidden, rows = sizes_.rows();
    SumColumns(stream(), rows, 4 * h, scratch.dgates, scratch.partial, args.param_grads[2]);
    const GemmFactor dgates{.data = scratch.dgates, .row_stride = 4 * h, .transposed = true};
    Gemm(context(), {.m = 4 * h, .n = sizes_.features, .k = rows}, dgates,
         {.data = Floats(args.inputs[0]), .row_stride = sizes_.features},
         {.data = args.param_grads[0], .row_stride = sizes_.features});
    LstmShiftStates(stream(), {.samples = sizes_.samples,
                               .steps = sizes_.steps,
                               .hidden = h,
                               .reverse = op_.reverse,
                               .h0 = op_.state ? Floats(args.inputs[1]) : nullptr,
                               .y = Floats(args.outputs[0]),
                               .before = scratch.before});
    Gemm(context(), {.m = 4 * h, .n = h, .k = rows}, dgates,
         {.data = scratch.before, .row_stride = h}, {.data = args.param_grads[1], .row_stride = h});
  }

  const Lstm op_;
  const LstmSizes sizes_;
  const bool training_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const Lstm& op, const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const std::vector<int64_t>& x = r.inputs[0].spec.shape;
  const LstmSizes sizes{.samples = x[0], .steps = x[1], .features = x[2], .hidden = op.hidden};
  DeviceSections saved(nullptr), scratch(nullptr);
  TakeSaved(sizes, &saved);
  TakeScratch(sizes, &scratch);
  if (r.training) {
    plan.saved_bytes = saved.bytes();
    plan.backward_scratch_bytes = scratch.bytes();
  } else {
    plan.forward_scratch_bytes = saved.bytes();
  }
  plan.backward_reads_input.assign(r.inputs.size(), true);
  plan.backward_reads_output[0] = true;
  return std::make_unique<LstmKernel>(device, std::move(plan), op, sizes, r.training);
}

}  // namespace soapstone::compute
