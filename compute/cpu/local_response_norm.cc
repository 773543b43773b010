#include "compute/cpu/local_response_norm.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/vectors.h"
#include "compute/cpu/formats.h"
#include "compute/cpu/plain_inputs.h"
#include "compute/cpu/unary_kernel.h"
#include "compute/cpu/vector_math.h"

namespace soapstone::compute {
namespace {

using LrnForward = dnnl::lrn_forward;
using LrnBackward = dnnl::lrn_backward;

constexpr auto kAcross = dnnl::algorithm::lrn_across_channels;

// Keeps the input's layout. oneDNN divides α by the size as the operator does.
std::unique_ptr<Kernel> MakeLrnKernel(const LocalResponseNorm& op, const KernelRequest& request,
                                      const CpuContext& context) {
  const DnnlDesc x = DescOf(request.inputs[0]);
  const float alpha = static_cast<float>(op.alpha);
  const float beta = static_cast<float>(op.beta);
  const float k = static_cast<float>(op.k);
  const auto kind =
      request.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const LrnForward::primitive_desc f(LrnForward::desc(kind, kAcross, x, op.size, alpha, beta, k),
                                     UserScratch(), context.engine);
  Arena forward_scratch, backward_scratch;
  DnnlPrimitive forward = DnnlPrimitive::Make<LrnForward>(context, f, &forward_scratch);
  forward.Bind(DNNL_ARG_SRC, x);
  forward.Bind(DNNL_ARG_DST, f.dst_desc());
  forward.Bind(DNNL_ARG_WORKSPACE, f.workspace_desc());
  std::optional<DnnlPrimitive> backward;
  if (GradWanted(request, 0)) {
    const LrnBackward::primitive_desc b(
        LrnBackward::desc(kAcross, x, f.dst_desc(), op.size, alpha, beta, k), UserScratch(),
        context.engine, f);
    backward = DnnlPrimitive::Make<LrnBackward>(context, b, &backward_scratch);
    backward->Bind(DNNL_ARG_SRC, x);
    backward->Bind(DNNL_ARG_DIFF_DST, f.dst_desc());
    backward->Bind(DNNL_ARG_DIFF_SRC, b.diff_src_desc());
    backward->Bind(DNNL_ARG_WORKSPACE, f.workspace_desc());
  }
  KernelPlan plan = {.outputs = {FormatOf(request.outputs[0], f.dst_desc())},
                     .saved_bytes = f.workspace_desc().get_size(),
                     .forward_scratch_bytes = forward_scratch.bytes(),
                     .backward_scratch_bytes = backward_scratch.bytes(),
                     .backward_reads_input = {true},
                     .backward_reads_output = {false}};
  return std::make_unique<UnaryKernel>(std::move(plan), context, std::move(forward),
                                       std::move(backward));
}

// ---- Windows of an even size, which oneDNN does not have; in plain memory.

// x_c' is in the window of channel c for c − size/2 <= c' <= c + (size − 1)/2: one more before it
// than behind it.
struct EvenWindow {
  int64_t size = 0, channels = 0, places = 0;
  float k = 0, share = 0, beta = 0;  // share: α/size
  float slope = 0;                   // 2αβ/size

  int64_t First(int64_t c) const { return std::max<int64_t>(0, c - size / 2); }
  int64_t End(int64_t c) const { return std::min(channels, c + (size - 1) / 2 + 1); }
  // Of the channels in whose windows c is.
  int64_t FirstAround(int64_t c) const { return std::max<int64_t>(0, c - (size - 1) / 2); }
  int64_t EndAround(int64_t c) const { return std::min(channels, c + size / 2 + 1); }
};

constexpr int64_t kResponseGrain = 1 << 12;  // elements that are worth a thread

// u_c = k + share·Σ_{c' in the window} x_c'², y_c = x_c·u_c^−β for rows [begin, end) of [places],
// a row a channel of a sample. u may be y: then it is not kept.
SOAPSTONE_EACH_VECTOR_WIDTH void ResponseRows(const EvenWindow& w, int64_t begin, int64_t end,
                                              const float* x, float* u, float* y) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t c = row % w.channels;
    const float* sample = x + (row - c) * w.places;
    float* scale = u + row * w.places;
    for (int64_t p = 0; p < w.places; ++p) scale[p] = 0.0f;
    for (int64_t other = w.First(c); other < w.End(c); ++other) {
      const float* of_other = sample + other * w.places;
      SOAPSTONE_ELEMENTWISE
      for (int64_t p = 0; p < w.places; ++p) scale[p] += of_other[p] * of_other[p];
    }
    const float* of_row = sample + c * w.places;
    float* to = y + row * w.places;
    SOAPSTONE_ELEMENTWISE
    for (int64_t p = 0; p < w.places; ++p) {
      const float base = w.k + w.share * scale[p];
      scale[p] = base;
      to[p] = of_row[p] * VectorExp(-w.beta * VectorLog(base));
    }
  }
}

// dx = dy·u^−β and g = dx·x/u, elements [begin, end)
// NOLINTNEXTLINE(readability-function-size): what a loop reads stays in registers
SOAPSTONE_EACH_VECTOR_WIDTH void ResponseTerms(float beta, int64_t begin, int64_t end,
                                               const float* x, const float* u, const float* dy,
                                               float* g, float* dx) {
  SOAPSTONE_ELEMENTWISE
  for (int64_t i = begin; i < end; ++i) {
    const float term = dy[i] * VectorExp(-beta * VectorLog(u[i]));
    dx[i] = term;
    g[i] = term * x[i] / u[i];
  }
}

// dx_c' −= slope·x_c'·Σ_{c: c' in the window of c} g_c; rows as above.
SOAPSTONE_EACH_VECTOR_WIDTH void ResponseGradientRows(const EvenWindow& w, int64_t begin,
                                                      int64_t end, const float* x, const float* g,
                                                      float* dx) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t c = row % w.channels;
    const float* sample = g + (row - c) * w.places;
    const float* from = x + row * w.places;
    float* to = dx + row * w.places;
    for (int64_t other = w.FirstAround(c); other < w.EndAround(c); ++other) {
      const float* of_other = sample + other * w.places;
      SOAPSTONE_ELEMENTWISE
      for (int64_t p = 0; p < w.places; ++p) to[p] -= w.slope * from[p] * of_other[p];
    }
  }
}

// Saves u; the scratch of Backward holds g.
class EvenResponseNorm final : public CpuKernel {
 public:
  EvenResponseNorm(KernelPlan plan, const CpuContext& context, const EvenWindow& window)
      : CpuKernel(std::move(plan), context), window_(window) {}

 protected:
  void RunForward(const ForwardArgs& args) override {
    const auto* x = static_cast<const float*>(args.inputs[0]);
    auto* y = static_cast<float*>(args.outputs[0]);
    float* u = plan().saved_bytes > 0 ? static_cast<float*>(args.saved) : y;
    ParallelFor(context(), rows(), RowGrain(),
                [&](int64_t begin, int64_t end) { ResponseRows(window_, begin, end, x, u, y); });
  }

  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    const auto* x = static_cast<const float*>(args.inputs[0]);
    const auto* u = static_cast<const float*>(args.saved);
    const auto* dy = static_cast<const float*>(args.output_grads[0]);
    auto* g = static_cast<float*>(args.scratch);
    auto* dx = static_cast<float*>(args.input_grads[0]);
    ParallelFor(context(), rows() * window_.places, kResponseGrain,
                [&](int64_t begin, int64_t end) {
                  ResponseTerms(window_.beta, begin, end, x, u, dy, g, dx);
                });
    ParallelFor(context(), rows(), RowGrain(), [&](int64_t begin, int64_t end) {
      ResponseGradientRows(window_, begin, end, x, g, dx);
    });
  }

 private:
  int64_t rows() const {
    return plan().outputs[0].spec.elements() / std::max<int64_t>(window_.places, 1);
  }
  int64_t RowGrain() const {
    return std::max<int64_t>(1, kResponseGrain / std::max<int64_t>(window_.places, 1));
  }

  const EvenWindow window_;
};

std::unique_ptr<Kernel> MakeEvenResponseNorm(const LocalResponseNorm& op,
                                             const KernelRequest& request,
                                             const CpuContext& context) {
  const std::vector<int64_t>& shape = request.inputs[0].spec.shape;
  const double share = op.alpha / static_cast<double>(op.size);
  const EvenWindow window = {.size = op.size,
                             .channels = shape[1],
                             .places = shape[2] * shape[3],
                             .k = static_cast<float>(op.k),
                             .share = static_cast<float>(share),
                             .beta = static_cast<float>(op.beta),
                             .slope = static_cast<float>(2 * share * op.beta)};
  const Format y = PlainFormat(request.outputs[0]);
  const size_t backward_bytes = GradWanted(request, 0) ? y.bytes : 0;
  KernelPlan plan = {.outputs = {y},
                     .saved_bytes = backward_bytes,
                     .backward_scratch_bytes = backward_bytes,
                     .backward_reads_input = {true},
                     .backward_reads_output = {false}};
  return std::make_unique<EvenResponseNorm>(std::move(plan), context, window);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeLocalResponseNorm(const LocalResponseNorm& op,
                                                              const KernelRequest& request,
                                                              const CpuContext& context) {
  if (op.size % 2 == 0) {
    return WithPlainInputs(request, context, [&](const KernelRequest& plain) {
      return GuardedMake(plain, context, [&] { return MakeEvenResponseNorm(op, plain, context); });
    });
  }
  return GuardedMake(request, context, [&] { return MakeLrnKernel(op, request, context); });
}

}  // namespace soapstone::compute
