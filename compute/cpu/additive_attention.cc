#include "compute/cpu/additive_attention.h"

#include <algorithm>
#include <vector>

#include "base/vectors.h"
#include "compute/cpu/formats.h"
#include "compute/cpu/gemm.h"
#include "compute/cpu/vector_math.h"

namespace soapstone::compute {
namespace {

// Q [n, t, d], K [n, s, d], V [n, s, e]
struct AdditiveShape {
  int64_t n = 0, t = 0, s = 0, d = 0, e = 0;
};

struct AdditiveForward {
  const float *q = nullptr, *k = nullptr;  // [n, t, d], [n, s, d]
  const float* v = nullptr;                // [d]
  float* p = nullptr;                      // [n, t, s]
};

// Of queries [begin, end) of n·t: p = softmax_s(vᵀ tanh(q + k_s))
SOAPSTONE_EACH_VECTOR_WIDTH void AdditiveWeights(const AdditiveShape& a, int64_t begin, int64_t end,
                                                 const AdditiveForward& tensors) {
  const float* v = tensors.v;
  float* p = tensors.p;
  for (int64_t r = begin; r < end; ++r) {
    const float* query = tensors.q + r * a.d;
    const float* keys = tensors.k + r / a.t * a.s * a.d;
    for (int64_t s = 0; s < a.s; ++s) {
      const float* key = keys + s * a.d;
      p[r * a.s + s] =
          LaneSum(a.d, [&](int64_t i) { return v[i] * VectorTanh(query[i] + key[i]); });
    }
    SoftmaxRow(a.s, p + r * a.s);
  }
}

// Of one sample; all but `scores` are written.
struct AdditiveGradient {
  const float *q = nullptr, *k = nullptr;  // [t, d], [s, d]
  const float* v = nullptr;                // [d]
  const float* p = nullptr;                // [t, s]
  float* scores = nullptr;                 // [t, s]: ∂L/∂p, overwritten
  float *dq = nullptr, *dk = nullptr;      // [t, d], [s, d]
  float* dv = nullptr;                     // [d]
};

// With z = tanh(q + k) and g the gradient of the score: dv = Σ g·z, dq = v Σ_s g (1 − z²),
// dk = v Σ_t g (1 − z²).
SOAPSTONE_EACH_VECTOR_WIDTH void AdditiveSampleGradient(const AdditiveShape& a,
                                                        const AdditiveGradient& t) {
  const int64_t d = a.d;
  float* dv = t.dv;
  std::fill_n(dv, d, 0.0f);
  std::fill_n(t.dk, a.s * d, 0.0f);
  for (int64_t r = 0; r < a.t; ++r) {
    SoftmaxRowGradient(a.s, 1.0f, t.p + r * a.s, t.scores + r * a.s);
    const float* query = t.q + r * d;
    float* dq = t.dq + r * d;
    std::fill_n(dq, d, 0.0f);
    for (int64_t s = 0; s < a.s; ++s) {
      const float g = t.scores[r * a.s + s];
      const float* key = t.k + s * d;
      float* dk = t.dk + s * d;
      SOAPSTONE_ELEMENTWISE
      for (int64_t i = 0; i < d; ++i) {
        const float z = VectorTanh(query[i] + key[i]);
        const float through = g * (1.0f - z * z);
        dv[i] += g * z;
        dq[i] += through;
        dk[i] += through;
      }
    }
  }
  for (int64_t r = 0; r < a.t; ++r) {
    float* dq = t.dq + r * d;
    SOAPSTONE_ELEMENTWISE
    for (int64_t i = 0; i < d; ++i) dq[i] *= t.v[i];
  }
  for (int64_t s = 0; s < a.s; ++s) {
    float* dk = t.dk + s * d;
    SOAPSTONE_ELEMENTWISE
    for (int64_t i = 0; i < d; ++i) dk[i] *= t.v[i];
  }
}

class CpuAdditiveAttention : public CpuKernel {
 public:
  struct Parts {
    KernelPlan plan;
    AdditiveShape shape;
    bool training = true;
    std::vector<PlainInput> forward_inputs, backward_inputs;  // Q, K, V
    std::vector<PlainOutput> input_grads;
    size_t weights = 0;         // [N, T, S], saved or in forward's scratch memory
    size_t scores = 0, dv = 0;  // [N, T, S], [N, D] in backward's
    size_t dq = 0, dk = 0;      // where the caller does not want them
  };
  CpuAdditiveAttention(Parts parts, const CpuContext& context)
      : CpuKernel(parts.plan, context), p_(std::move(parts)) {}

 protected:
  void RunForward(const ForwardArgs& a) override {
    const AdditiveShape& s = p_.shape;
    const float* q = p_.forward_inputs[0].Get(a.inputs[0], a.scratch);
    const float* k = p_.forward_inputs[1].Get(a.inputs[1], a.scratch);
    const float* v = p_.forward_inputs[2].Get(a.inputs[2], a.scratch);
    float* weights = At<float>(p_.training ? a.saved : a.scratch, p_.weights);
    auto* y = static_cast<float*>(a.outputs[0]);
    ParallelFor(context(), s.n * s.t, 1, [&](int64_t begin, int64_t end) {
      AdditiveWeights(s, begin, end, {q, k, a.params[0], weights});
    });
    ParallelFor(context(), s.n, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        Gemm({s.t, s.e, s.s}, {weights + n * s.t * s.s, s.s}, {v + n * s.s * s.e, s.e},
             {y + n * s.t * s.e, s.e});
      }
    });
  }

  void RunBackward(const BackwardArgs& a) override {
    const AdditiveShape& s = p_.shape;
    const float* q = p_.backward_inputs[0].Get(a.inputs[0], a.scratch);
    const float* k = p_.backward_inputs[1].Get(a.inputs[1], a.scratch);
    const float* values = p_.backward_inputs[2].Get(a.inputs[2], a.scratch);
    const auto* dy = static_cast<const float*>(a.output_grads[0]);
    const float* weights = At<float>(a.saved, p_.weights);
    float* scores = At<float>(a.scratch, p_.scores);
    float* dv = At<float>(a.scratch, p_.dv);
    float* dq = GradientOr(a, 0, p_.dq);
    float* dk = GradientOr(a, 1, p_.dk);
    float* dvalues = GradientOr(a, 2, 0);
    ParallelFor(context(), s.n, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const int64_t at_p = n * s.t * s.s;
        const GemmOperand dy_n = {dy + n * s.t * s.e, s.e};
        if (a.input_grads[2] != nullptr) {
          Gemm({s.s, s.e, s.t}, {weights + at_p, s.s, true}, dy_n, {dvalues + n * s.s * s.e, s.e});
        }
        Gemm({s.t, s.s, s.e}, dy_n, {values + n * s.s * s.e, s.e, true}, {scores + at_p, s.s});
        AdditiveSampleGradient(s, {.q = q + n * s.t * s.d,
                                   .k = k + n * s.s * s.d,
                                   .v = a.params[0],
                                   .p = weights + at_p,
                                   .scores = scores + at_p,
                                   .dq = dq + n * s.t * s.d,
                                   .dk = dk + n * s.s * s.d,
                                   .dv = dv + n * s.d});
      }
    });
    for (int64_t i = 0; i < s.d; ++i) {
      float sum = 0;
      for (int64_t n = 0; n < s.n; ++n) sum += dv[n * s.d + i];
      a.param_grads[0][i] = sum;
    }
    for (size_t i = 0; i < 3; ++i) {
      if (a.input_grads[i] != nullptr) p_.input_grads[i].Finish(a.input_grads[i], a.scratch);
    }
  }

 private:
  float* GradientOr(const BackwardArgs& a, size_t input, size_t spare) {
    if (a.input_grads[input] == nullptr) return At<float>(a.scratch, spare);
    return p_.input_grads[input].Get(a.input_grads[input], a.scratch);
  }

  Parts p_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeAdditiveAttention(const AdditiveAttention&,
                                                              const KernelRequest& request,
                                                              const CpuContext& context) {
  return GuardedMake(request, context, [&]() -> std::unique_ptr<Kernel> {
    const std::vector<int64_t>& q = request.inputs[0].spec.shape;
    const std::vector<int64_t>& v = request.inputs[2].spec.shape;
    const AdditiveShape s = {q[0], q[1], v[1], q[2], v[2]};
    const auto bytes = [](int64_t elements) {
      return static_cast<size_t>(elements) * sizeof(float);
    };
    Arena saved, forward, backward;
    CpuAdditiveAttention::Parts parts = {.shape = s, .training = request.training};
    parts.weights = (request.training ? saved : forward).Take(bytes(s.n * s.t * s.s));
    parts.scores = backward.Take(bytes(s.n * s.t * s.s));
    parts.dv = backward.Take(bytes(s.n * s.d));
    if (!GradWanted(request, 0)) parts.dq = backward.Take(bytes(s.n * s.t * s.d));
    if (!GradWanted(request, 1)) parts.dk = backward.Take(bytes(s.n * s.s * s.d));
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
    return std::make_unique<CpuAdditiveAttention>(std::move(parts), context);
  });
}

}  // namespace soapstone::compute
