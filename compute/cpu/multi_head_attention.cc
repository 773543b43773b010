#include "compute/cpu/multi_head_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/vectors.h"
#include "compute/cpu/formats.h"
#include "compute/cpu/gemm.h"
#include "compute/cpu/vector_math.h"

namespace soapstone::compute {
namespace {

// Rows of queries that are worked on at a time: their [64, S] probabilities stay in the cache
// between products, and with `causal` half of the products is left out.
constexpr int64_t kQueryBlock = 64;

// Q [n, t, d], K and V [n, s, d]
struct AttentionShape {
  int64_t n = 0, t = 0, s = 0, d = 0, heads = 1;
  bool causal = false;
  int64_t items() const { return n * heads; }
  int64_t width() const { return d / heads; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(width())); }
  // Where an item (a sample and a head) begins in a tensor of `steps`.
  int64_t At(int64_t item, int64_t steps) const {
    return item / heads * steps * d + item % heads * width();
  }
};

// Queries [begin, end) see the first `seen` keys, or with `causal` each as many as itself.
struct QueryBlock {
  int64_t begin = 0, end = 0, seen = 0;
  int64_t rows() const { return end - begin; }
};

QueryBlock BlockOf(const AttentionShape& a, int64_t index) {
  const int64_t begin = index * kQueryBlock;
  const int64_t end = std::min(begin + kQueryBlock, a.t);
  return {begin, end, a.causal ? end : a.s};
}

// p [rows, s] ← softmax of what each query sees, 0 for the rest of the block
SOAPSTONE_EACH_VECTOR_WIDTH void SoftmaxOfBlock(const AttentionShape& a, const QueryBlock& block,
                                                float* p) {
  for (int64_t r = 0; r < block.rows(); ++r) {
    const int64_t seen = a.causal ? block.begin + r + 1 : a.s;
    SoftmaxRow(seen, p + r * a.s);
    for (int64_t i = seen; i < block.seen; ++i) p[r * a.s + i] = 0;
  }
}

// grad [rows, s]: of p before, of Q·Kᵀ after
SOAPSTONE_EACH_VECTOR_WIDTH void SoftmaxGradientOfBlock(const AttentionShape& a,
                                                        const QueryBlock& block, const float* p,
                                                        float* grad) {
  const float scale = a.scale();
  for (int64_t r = 0; r < block.rows(); ++r) {
    SoftmaxRowGradient(block.seen, scale, p + r * a.s, grad + r * a.s);
  }
}

class CpuMultiHeadAttention : public CpuKernel {
 public:
  struct Parts {
    KernelPlan plan;
    AttentionShape shape;
    bool training = true;
    std::vector<PlainInput> forward_inputs, backward_inputs;  // Q, K, V
    std::vector<PlainOutput> input_grads;
    // Probabilities: saved [N·heads, T, S], or a block by thread in the scratch memory.
    size_t probabilities = 0;
    size_t block_grads = 0;  // [threads, kQueryBlock, S] in backward's scratch memory
  };
  CpuMultiHeadAttention(Parts parts, const CpuContext& context)
      : CpuKernel(parts.plan, context), p_(std::move(parts)) {}

 protected:
  void RunForward(const ForwardArgs& a) override {
    const AttentionShape& s = p_.shape;
    const float* q = p_.forward_inputs[0].Get(a.inputs[0], a.scratch);
    const float* k = p_.forward_inputs[1].Get(a.inputs[1], a.scratch);
    const float* v = p_.forward_inputs[2].Get(a.inputs[2], a.scratch);
    auto* y = static_cast<float*>(a.outputs[0]);
    ForItems([&](int64_t item, int64_t part) {
      const int64_t at_q = s.At(item, s.t), at_k = s.At(item, s.s);
      for (int64_t i = 0; i * kQueryBlock < s.t; ++i) {
        const QueryBlock block = BlockOf(s, i);
        float* p = p_.training ? Probabilities(a.saved, item, block)
                               : At<float>(a.scratch, p_.probabilities) + part * kQueryBlock * s.s;
        Gemm({block.rows(), block.seen, s.width()}, {q + at_q + block.begin * s.d, s.d},
             {k + at_k, s.d, true}, {p, s.s, s.scale()});
        SoftmaxOfBlock(s, block, p);
        Gemm({block.rows(), s.width(), block.seen}, {p, s.s}, {v + at_k, s.d},
             {y + at_q + block.begin * s.d, s.d});
      }
    });
  }

  void RunBackward(const BackwardArgs& a) override {
    Tensors t;
    t.q = p_.backward_inputs[0].Get(a.inputs[0], a.scratch);
    t.k = p_.backward_inputs[1].Get(a.inputs[1], a.scratch);
    t.v = p_.backward_inputs[2].Get(a.inputs[2], a.scratch);
    t.dy = static_cast<const float*>(a.output_grads[0]);
    float** const grads[] = {&t.dq, &t.dk, &t.dv};
    for (size_t i = 0; i < 3; ++i) {
      if (a.input_grads[i] != nullptr)
        *grads[i] = p_.input_grads[i].Get(a.input_grads[i], a.scratch);
    }
    ForItems([&](int64_t item, int64_t part) {
      float* grad = At<float>(a.scratch, p_.block_grads) + part * kQueryBlock * p_.shape.s;
      // From the last block on: it is the one that sees all keys, and so writes all of dK and dV.
      const int64_t blocks = (p_.shape.t + kQueryBlock - 1) / kQueryBlock;
      for (int64_t i = blocks - 1; i >= 0; --i) {
        const QueryBlock block = BlockOf(p_.shape, i);
        BlockGradient(t, item, block, Probabilities(a.saved, item, block), grad);
      }
    });
    for (size_t i = 0; i < 3; ++i) {
      if (a.input_grads[i] != nullptr) p_.input_grads[i].Finish(a.input_grads[i], a.scratch);
    }
  }

 private:
  struct Tensors {
    const float *q = nullptr, *k = nullptr, *v = nullptr, *dy = nullptr;
    float *dq = nullptr, *dk = nullptr, *dv = nullptr;
  };

  float* Probabilities(void* saved, int64_t item, const QueryBlock& block) const {
    return At<float>(saved, p_.probabilities) + (item * p_.shape.t + block.begin) * p_.shape.s;
  }

  // dV += Pᵀ dY, dP = dY Vᵀ, dQ = dS K, dK += dSᵀ Q
  void BlockGradient(const Tensors& t, int64_t item, const QueryBlock& block, const float* p,
                     float* grad) const {
    const AttentionShape& s = p_.shape;
    const int64_t at_q = s.At(item, s.t) + block.begin * s.d, at_k = s.At(item, s.s);
    const float beta = block.end == s.t ? 0.0f : 1.0f;
    const int64_t rows = block.rows(), width = s.width();
    if (t.dv != nullptr) {
      Gemm({block.seen, width, rows}, {p, s.s, true}, {t.dy + at_q, s.d},
           {t.dv + at_k, s.d, 1, beta});
    }
    if (t.dq == nullptr && t.dk == nullptr) return;
    Gemm({rows, block.seen, width}, {t.dy + at_q, s.d}, {t.v + at_k, s.d, true}, {grad, s.s});
    SoftmaxGradientOfBlock(s, block, p, grad);
    if (t.dq != nullptr) {
      Gemm({rows, width, block.seen}, {grad, s.s}, {t.k + at_k, s.d}, {t.dq + at_q, s.d});
    }
    if (t.dk != nullptr) {
      Gemm({block.seen, width, rows}, {grad, s.s, true}, {t.q + at_q, s.d},
           {t.dk + at_k, s.d, 1, beta});
    }
  }

  // body(item, part): parts have memory of their own.
  template <typename Body>
  void ForItems(const Body& body) const {
    const int64_t items = p_.shape.items(), parts = context().threads;
    ParallelFor(context(), parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        const int64_t last = items * (part + 1) / parts;
        for (int64_t item = items * part / parts; item < last; ++item) body(item, part);
      }
    });
  }

  Parts p_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeMultiHeadAttention(const MultiHeadAttention& op,
                                                               const KernelRequest& request,
                                                               const CpuContext& context) {
  return GuardedMake(request, context, [&]() -> std::unique_ptr<Kernel> {
    const std::vector<int64_t>& q = request.inputs[0].spec.shape;
    const AttentionShape shape = {q[0], q[1],     request.inputs[1].spec.shape[1],
                                  q[2], op.heads, op.causal};
    Arena saved, forward, backward;
    const size_t block_bytes =
        static_cast<size_t>(context.threads * kQueryBlock * shape.s) * sizeof(float);
    const size_t all_bytes = static_cast<size_t>(shape.items() * shape.t * shape.s) * sizeof(float);
    CpuMultiHeadAttention::Parts parts = {.shape = shape, .training = request.training};
    parts.probabilities = request.training ? saved.Take(all_bytes) : forward.Take(block_bytes);
    parts.block_grads = backward.Take(block_bytes);
    for (const Format& input : request.inputs) {
      parts.forward_inputs.emplace_back(input, context, &forward);
      parts.backward_inputs.emplace_back(input, context, &backward);
      parts.input_grads.emplace_back(input, context, &backward);
    }
    parts.plan = {.outputs = {PlainFormat(request.outputs[0])},
                  .saved_bytes = saved.bytes(),
                  .forward_scratch_bytes = forward.bytes(),
                  .backward_scratch_bytes = backward.bytes(),
                  .backward_reads_input = {true, true, true},
                  .backward_reads_output = {false}};
    return std::make_unique<CpuMultiHeadAttention>(std::move(parts), context);
  });
}

}  // namespace soapstone::compute
