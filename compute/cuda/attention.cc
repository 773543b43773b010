// Attention on the device: products by cuBLAS, softmax and the additive scores by kernels of our
// own. The probabilities are kept for Backward. And products of all pairs of vectors.
#include <cmath>

#include "compute/cuda/gemm.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

// A matrix for each sample and head.
struct HeadMatrix {
  float* data = nullptr;
  int64_t row_stride = 0, head_stride = 0, sample_stride = 0;
};

struct AttentionSizes {
  int64_t samples = 0, queries = 0, keys = 0, heads = 1, width = 0;  // of a head
  int64_t dim() const { return heads * width; }
  int64_t scores() const { return samples * heads * queries * keys; }
};

class MultiHeadAttentionKernel : public DeviceKernel {
 public:
  MultiHeadAttentionKernel(const DeviceContext* device, KernelPlan plan,
                           const AttentionSizes& sizes, const SoftmaxPass& softmax, bool training)
      : DeviceKernel(device, std::move(plan)),
        sizes_(sizes),
        softmax_(softmax),
        training_(training) {}

  void RunForward(const ForwardArgs& args) override {
    const HeadMatrix p = Scores(training_ ? args.saved : args.scratch);
    const HeadMatrix q = Heads(args.inputs[0], sizes_.queries);
    const HeadMatrix k = Heads(args.inputs[1], sizes_.keys);
    const HeadMatrix v = Heads(args.inputs[2], sizes_.keys);
    Product(sizes_.queries, sizes_.keys, sizes_.width, {q}, {k, true}, p);
    SoftmaxRows(stream(), softmax_, p.data);
    const HeadMatrix y = Heads(args.outputs[0], sizes_.queries);
    Product(sizes_.queries, sizes_.width, sizes_.keys, {p}, {v}, y);
  }

  void RunBackward(const BackwardArgs& args) override {
    const HeadMatrix p = Scores(args.saved), ds = Scores(args.scratch);
    const HeadMatrix q = Heads(args.inputs[0], sizes_.queries);
    const HeadMatrix k = Heads(args.inputs[1], sizes_.keys);
    const HeadMatrix v = Heads(args.inputs[2], sizes_.keys);
    const HeadMatrix dy = Heads(args.output_grads[0], sizes_.queries);
    if (args.input_grads[2] != nullptr) {
      const HeadMatrix dv = Heads(args.input_grads[2], sizes_.keys);
      Product(sizes_.keys, sizes_.width, sizes_.queries, {p, true}, {dy}, dv);
    }
    Product(sizes_.queries, sizes_.keys, sizes_.width, {dy}, {v, true}, ds);
    SoftmaxRowsBackward(stream(), softmax_, p.data, ds.data);
    if (args.input_grads[0] != nullptr) {
      const HeadMatrix dq = Heads(args.input_grads[0], sizes_.queries);
      Product(sizes_.queries, sizes_.width, sizes_.keys, {ds}, {k}, dq);
    }
    if (args.input_grads[1] != nullptr) {
      const HeadMatrix dk = Heads(args.input_grads[1], sizes_.keys);
      Product(sizes_.keys, sizes_.width, sizes_.queries, {ds, true}, {q}, dk);
    }
  }

 private:
  struct Factor {
    HeadMatrix matrix;
    bool transposed = false;
  };

  // [N, steps, heads·width]; only what is a result is written to.
  HeadMatrix Heads(const void* tensor, int64_t steps) const {
    return {const_cast<float*>(Floats(tensor)), sizes_.dim(), sizes_.width, steps * sizes_.dim()};
  }
  // [N, heads, T, S]
  HeadMatrix Scores(void* tensor) const {
    const int64_t one = sizes_.queries * sizes_.keys;
    return {Floats(tensor), sizes_.keys, one, sizes_.heads * one};
  }

  // c [m, n] = a [m, k] · b [k, n] for each sample and head: batches over the more of both.
  void Product(int64_t m, int64_t n, int64_t k, const Factor& a, const Factor& b,
               const HeadMatrix& c) const {
    const bool by_sample = sizes_.samples >= sizes_.heads;
    const int64_t calls = by_sample ? sizes_.heads : sizes_.samples;
    const int64_t batch = by_sample ? sizes_.samples : sizes_.heads;
    const auto at = [&](const HeadMatrix& x, int64_t i) {
      return x.data + i * (by_sample ? x.head_stride : x.sample_stride);
    };
    const auto stride = [&](const HeadMatrix& x) {
      return by_sample ? x.sample_stride : x.head_stride;
    };
    for (int64_t i = 0; i < calls; ++i) {
      Gemm(context(), {.m = m, .n = n, .k = k, .batch = batch},
           {at(a.matrix, i), a.matrix.row_stride, a.transposed, stride(a.matrix)},
           {at(b.matrix, i), b.matrix.row_stride, b.transposed, stride(b.matrix)},
           {at(c, i), c.row_stride, stride(c)});
    }
  }

  const AttentionSizes sizes_;
  const SoftmaxPass softmax_;
  const bool training_;
};

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

class PairwiseDotKernel : public DeviceKernel {
 public:
  PairwiseDotKernel(const DeviceContext* device, KernelPlan plan, const PairwisePass& pass)
      : DeviceKernel(device, std::move(plan)), pass_(pass) {}

  void RunForward(const ForwardArgs& args) override {
    PairwiseForward(stream(), pass_, Floats(args.inputs[0]), Floats(args.outputs[0]));
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    PairwiseBackward(stream(), pass_, Floats(args.inputs[0]), Floats(args.output_grads[0]),
                     Floats(args.input_grads[0]));
  }

 private:
  const PairwisePass pass_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const MultiHeadAttention& op,
                         const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const std::vector<int64_t>& q = r.inputs[0].spec.shape;
  const AttentionSizes sizes{.samples = q[0],
                             .queries = q[1],
                             .keys = r.inputs[1].spec.shape[1],
                             .heads = op.heads,
                             .width = q[2] / op.heads};
  const SoftmaxPass softmax{
      .rows = sizes.samples * sizes.heads * sizes.queries,
      .cols = sizes.keys,
      .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(sizes.width))),
      .period = op.causal ? sizes.queries : 0};
  const size_t bytes = static_cast<size_t>(sizes.scores()) * sizeof(float);
  (r.training ? plan.saved_bytes : plan.forward_scratch_bytes) = bytes;
  if (r.training) plan.backward_scratch_bytes = bytes;
  plan.backward_reads_input = {true, true, true};
  return std::make_unique<MultiHeadAttentionKernel>(device, std::move(plan), sizes, softmax,
                                                    r.training);
}

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

PreparedKernel PrepareOn(const DeviceContext* device, const PairwiseDot& /*op*/,
                         const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const std::vector<int64_t>& x = r.inputs[0].spec.shape;
  plan.backward_reads_input = {InputGradWanted(r, 0)};
  return std::make_unique<PairwiseDotKernel>(
      device, std::move(plan), PairwisePass{.samples = x[0], .vectors = x[1], .dim = x[2]});
}

}  // namespace soapstone::compute
