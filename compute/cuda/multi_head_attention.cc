// MultiHeadAttention on the device: products by cuBLAS, softmax by a kernel of our own. The
// probabilities are kept for Backward.
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

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

}  // namespace soapstone::compute
