// AdditiveAttention on the device: products by cuBLAS, scores and softmax by kernels of our own.
// The probabilities are kept for Backward.
#include <memory>
#include <utility>
#include <vector>

#include "compute/cuda/gemm.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

// Q [N, T, D], K [N, S, D], V [N, S, E].
class AdditiveAttentionKernel : public DeviceKernel {
 public:
  AdditiveAttentionKernel(const DeviceContext* device, KernelPlan plan, const AdditivePass& pass,
                          int64_t values, bool training)
      : DeviceKernel(device, std::move(plan)),
        pass_(pass),
        values_(values),
        training_(training),
        softmax_{.rows = pass.samples * pass.queries, .cols = pass.keys} {}

  struct Scratch {
    float* ds = nullptr;         // [N, T, S]
    float* by_sample = nullptr;  // [N, D]
    float* partial = nullptr;
  };
  static Scratch TakeScratch(const AdditivePass& pass, DeviceSections* sections) {
    Scratch scratch;
    scratch.ds = sections->Take<float>(pass.samples * pass.queries * pass.keys);
    scratch.by_sample = sections->Take<float>(pass.samples * pass.dim);
    scratch.partial = sections->Take<float>(ColumnPartials(pass.samples, pass.dim));
    return scratch;
  }

  void RunForward(const ForwardArgs& args) override {
    float* const p = Floats(training_ ? args.saved : args.scratch);
    AdditiveScores(stream(), PassOf(args.inputs, args.params), p);
    SoftmaxRows(stream(), softmax_, p);
    Gemm(context(), Shape(pass_.queries, values_, pass_.keys), Probabilities(p, false),
         Values(args.inputs[2], false),
         {Floats(args.outputs[0]), values_, pass_.queries * values_});
  }

  void RunBackward(const BackwardArgs& args) override {
    DeviceSections sections(args.scratch);
    const Scratch scratch = TakeScratch(pass_, &sections);
    const float* const p = Floats(args.saved);
    const GemmFactor dy{.data = Floats(args.output_grads[0]),
                        .row_stride = values_,
                        .batch_stride = pass_.queries * values_};
    if (args.input_grads[2] != nullptr) {
      Gemm(context(), Shape(pass_.keys, values_, pass_.queries), Probabilities(p, true), dy,
           {Floats(args.input_grads[2]), values_, pass_.keys * values_});
    }
    Gemm(context(), Shape(pass_.queries, pass_.keys, values_), dy, Values(args.inputs[2], true),
         {scratch.ds, pass_.keys, pass_.queries * pass_.keys});
    SoftmaxRowsBackward(stream(), softmax_, p, scratch.ds);
    const AdditivePass pass = PassOf(args.inputs, args.params);
    if (args.input_grads[0] != nullptr) {
      AdditiveQueryGradient(stream(), pass, scratch.ds, Floats(args.input_grads[0]));
    }
    if (args.input_grads[1] != nullptr) {
      AdditiveKeyGradient(stream(), pass, scratch.ds, Floats(args.input_grads[1]));
    }
    AdditiveVectorGradient(stream(), pass, scratch.ds, scratch.by_sample);
    SumColumns(stream(), pass.samples, pass.dim, scratch.by_sample, scratch.partial,
               args.param_grads[0]);
  }

 private:
  AdditivePass PassOf(absl::Span<const void* const> inputs,
                      absl::Span<const float* const> params) const {
    AdditivePass pass = pass_;
    pass.q = Floats(inputs[0]);
    pass.k = Floats(inputs[1]);
    pass.v = params[0];
    return pass;
  }
  GemmShape Shape(int64_t m, int64_t n, int64_t k) const { return {m, n, k, pass_.samples}; }
  GemmFactor Probabilities(const float* p, bool transposed) const {
    return {p, pass_.keys, transposed, pass_.queries * pass_.keys};
  }
  GemmFactor Values(const void* v, bool transposed) const {
    return {Floats(v), values_, transposed, pass_.keys * values_};
  }

  const AdditivePass pass_;
  const int64_t values_;
  const bool training_;
  const SoftmaxPass softmax_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const AdditiveAttention& /*op*/,
                         const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const std::vector<int64_t>& q = r.inputs[0].spec.shape;
  const AdditivePass pass{
      .samples = q[0], .queries = q[1], .keys = r.inputs[1].spec.shape[1], .dim = q[2]};
  const size_t bytes = static_cast<size_t>(pass.samples * pass.queries * pass.keys) * sizeof(float);
  (r.training ? plan.saved_bytes : plan.forward_scratch_bytes) = bytes;
  if (r.training) {
    DeviceSections scratch(nullptr);
    AdditiveAttentionKernel::TakeScratch(pass, &scratch);
    plan.backward_scratch_bytes = scratch.bytes();
  }
  plan.backward_reads_input = {true, true, true};
  return std::make_unique<AdditiveAttentionKernel>(device, std::move(plan), pass,
                                                   r.inputs[2].spec.shape[2], r.training);
}

}  // namespace soapstone::compute
