#include "compute/cpu/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "base/vectors.h"
#include "compute/cpu/formats.h"
#include "compute/cpu/vector_math.h"

namespace soapstone::compute {
namespace {

struct RowMoments {
  float mean = 0;
  float rstd = 0;  // 1/√(σ² + ε)
};

struct LayerNormParams {
  int64_t dim = 0;
  float epsilon = 0;
  const float* gamma = nullptr;  // [dim]
  const float* beta = nullptr;   // [dim]
};

// x, y [end, dim]; moments [end]
SOAPSTONE_EACH_VECTOR_WIDTH void NormalizeRows(const LayerNormParams& p, int64_t begin, int64_t end,
                                               const float* x, float* y, RowMoments* moments) {
  const int64_t dim = p.dim;
  const float* gamma = p.gamma;
  const float* beta = p.beta;
  for (int64_t r = begin; r < end; ++r) {
    const float* row = x + r * dim;
    float* out = y + r * dim;
    const float mean = LaneSum(dim, [&](int64_t i) { return row[i]; }) / static_cast<float>(dim);
    const float squares =
        LaneSum(dim, [&](int64_t i) { return (row[i] - mean) * (row[i] - mean); });
    const float rstd = 1.0f / std::sqrt(squares / static_cast<float>(dim) + p.epsilon);
    SOAPSTONE_ELEMENTWISE
    for (int64_t i = 0; i < dim; ++i) out[i] = (row[i] - mean) * rstd * gamma[i] + beta[i];
    moments[r] = {mean, rstd};
  }
}

struct LayerNormGradient {
  const float* x = nullptr;
  const RowMoments* moments = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;      // may be dy; null: not wanted
  float* dgamma = nullptr;  // [dim], added to
  float* dbeta = nullptr;   // [dim], added to
};

// With x̂ = (x − μ)·rstd and g = γ·dy: dx = rstd (g − mean(g) − x̂·mean(g·x̂)).
SOAPSTONE_EACH_VECTOR_WIDTH void NormalizeRowsGradient(const LayerNormParams& p, int64_t begin,
                                                       int64_t end, const LayerNormGradient& t) {
  const int64_t dim = p.dim;
  const float* gamma = p.gamma;
  float* dgamma = t.dgamma;
  float* dbeta = t.dbeta;
  for (int64_t r = begin; r < end; ++r) {
    const float* x = t.x + r * dim;
    const float* dy = t.dy + r * dim;
    const float mean = t.moments[r].mean;
    const float rstd = t.moments[r].rstd;
    SOAPSTONE_ELEMENTWISE
    for (int64_t i = 0; i < dim; ++i) {
      dgamma[i] += dy[i] * ((x[i] - mean) * rstd);
      dbeta[i] += dy[i];
    }
    if (t.dx == nullptr) continue;
    float* dx = t.dx + r * dim;
    const float sum = LaneSum(dim, [&](int64_t i) { return dy[i] * gamma[i]; });
    const float dot =
        LaneSum(dim, [&](int64_t i) { return (dy[i] * gamma[i]) * ((x[i] - mean) * rstd); });
    const float mean_g = sum / static_cast<float>(dim);
    const float mean_gx = dot / static_cast<float>(dim);
    SOAPSTONE_ELEMENTWISE
    for (int64_t i = 0; i < dim; ++i) {
      dx[i] = rstd * ((dy[i] * gamma[i] - mean_g) - ((x[i] - mean) * rstd) * mean_gx);
    }
  }
}

class CpuLayerNorm : public CpuKernel {
 public:
  struct Parts {
    KernelPlan plan;
    int64_t rows = 0, dim = 0;
    float epsilon = 0;
    bool training = true;
    PlainInput forward_x, backward_x;
    PlainOutput dx;
    size_t moments = 0;   // offset in what is saved, or in the scratch memory
    size_t partials = 0;  // offset in backward's scratch memory: [threads, 2, dim]
  };
  CpuLayerNorm(Parts parts, const CpuContext& context)
      : CpuKernel(parts.plan, context), p_(std::move(parts)) {}

 protected:
  void RunForward(const ForwardArgs& a) override {
    const LayerNormParams params = {p_.dim, p_.epsilon, a.params[0], a.params[1]};
    const float* x = p_.forward_x.Get(a.inputs[0], a.scratch);
    RowMoments* moments = At<RowMoments>(p_.training ? a.saved : a.scratch, p_.moments);
    ParallelFor(context(), p_.rows, 1, [&](int64_t begin, int64_t end) {
      NormalizeRows(params, begin, end, x, static_cast<float*>(a.outputs[0]), moments);
    });
  }

  void RunBackward(const BackwardArgs& a) override {
    const LayerNormParams params = {p_.dim, p_.epsilon, a.params[0], nullptr};
    LayerNormGradient tensors = {.x = p_.backward_x.Get(a.inputs[0], a.scratch),
                                 .moments = At<RowMoments>(a.saved, p_.moments),
                                 .dy = static_cast<const float*>(a.output_grads[0])};
    if (a.input_grads[0] != nullptr) tensors.dx = p_.dx.Get(a.input_grads[0], a.scratch);
    float* partials = At<float>(a.scratch, p_.partials);
    const int64_t parts = context().threads;
    ParallelFor(context(), parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        LayerNormGradient mine = tensors;
        mine.dgamma = partials + part * 2 * p_.dim;
        mine.dbeta = mine.dgamma + p_.dim;
        std::fill_n(mine.dgamma, 2 * p_.dim, 0.0f);
        NormalizeRowsGradient(params, p_.rows * part / parts, p_.rows * (part + 1) / parts, mine);
      }
    });
    for (int64_t i = 0; i < p_.dim; ++i) {
      float dgamma = 0, dbeta = 0;
      for (int64_t part = 0; part < parts; ++part) {
        dgamma += partials[part * 2 * p_.dim + i];
        dbeta += partials[(part * 2 + 1) * p_.dim + i];
      }
      a.param_grads[0][i] = dgamma;
      a.param_grads[1][i] = dbeta;
    }
    if (a.input_grads[0] != nullptr) p_.dx.Finish(a.input_grads[0], a.scratch);
  }

 private:
  Parts p_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeLayerNorm(const LayerNorm& op,
                                                      const KernelRequest& request,
                                                      const CpuContext& context) {
  return GuardedMake(request, context, [&]() -> std::unique_ptr<Kernel> {
    const Format& x = request.inputs[0];
    const int64_t dim = x.spec.shape.back();
    const int64_t rows = dim == 0 ? 0 : x.spec.elements() / dim;
    Arena saved, forward, backward;
    const size_t moment_bytes = static_cast<size_t>(rows) * sizeof(RowMoments);
    const size_t partial_bytes = static_cast<size_t>(context.threads * 2 * dim) * sizeof(float);
    CpuLayerNorm::Parts parts = {.rows = rows,
                                 .dim = dim,
                                 .epsilon = static_cast<float>(op.epsilon),
                                 .training = request.training,
                                 .forward_x = PlainInput(x, context, &forward),
                                 .backward_x = PlainInput(x, context, &backward),
                                 .dx = PlainOutput(x, context, &backward),
                                 .moments = (request.training ? saved : forward).Take(moment_bytes),
                                 .partials = backward.Take(partial_bytes)};
    parts.plan = {.outputs = {PlainFormat(request.outputs[0])},
                  .saved_bytes = saved.bytes(),
                  .forward_scratch_bytes = forward.bytes(),
                  .backward_scratch_bytes = backward.bytes(),
                  .backward_reads_input = {true},
                  .backward_reads_output = {false},
                  .forward_in_place = !request.training && x.plain(),
                  .backward_in_place = x.plain()};
    return std::make_unique<CpuLayerNorm>(std::move(parts), context);
  });
}

}  // namespace soapstone::compute
