#include "compute/cpu/lstm.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "compute/cpu/column_sum.h"
#include "compute/cpu/formats.h"
#include "compute/cpu/gemm.h"
#include "compute/cpu/gemm_primitive.h"
#include "compute/cpu/lstm_gates.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

// X [n, t, d], H = h
struct LstmShape {
  int64_t n = 0, t = 0, d = 0, h = 0;
  bool state = false, reverse = false;
  int64_t rows() const { return n * t; }
  int64_t gates() const { return 4 * h; }
  // The time that is computed as number `step`.
  int64_t TimeOf(int64_t step) const { return reverse ? t - 1 - step : step; }
};

// A product with W_hh, [n, in] → [n, out], done once a step. From kStepsWorthPacking steps on W_hh
// is packed once a call into the layout that oneDNN multiplies fastest: with 16 to 64 samples a
// product then takes 0.6 to 0.8 of the time, and packing about as long as one.
class RecurrentProduct {
 public:
  // `transposed`: by W_hhᵀ (forward)
  RecurrentProduct(const LstmShape& s, bool transposed, const CpuContext& context, Arena* scratch)
      : n_(s.n),
        in_(transposed ? s.h : s.gates()),
        out_(transposed ? s.gates() : s.h),
        transposed_(transposed) {
    constexpr int64_t kStepsWorthPacking = 4;
    if (s.t < kStepsWorthPacking || s.n == 0) return;
    using F = dnnl::inner_product_forward;
    const DnnlDesc src = PlainDesc({n_, in_}), dst = PlainDesc({n_, out_});
    const auto type = FactorType(context, s.rows(), in_, out_);
    const DnnlDesc factor(src.dims(), type, DnnlTag::ab);
    const F::primitive_desc desc(
        F::desc(dnnl::prop_kind::forward_inference, factor, AnyDesc({out_, in_}, type), dst),
        UserScratch(), context.engine);
    // oneDNN's weights are [out, in]: W_hh itself forward, a view of its transpose backward.
    const DnnlDesc given({out_, in_}, dnnl::memory::data_type::f32,
                         transposed ? DnnlTag::ab : DnnlTag::ba);
    if (desc.weights_desc() == given) return;
    pack_.emplace(context, given, desc.weights_desc(), scratch);
    packed_ = scratch->Take(desc.weights_desc().get_size());
    product_.emplace(context, DnnlPrimitive::Make<F>(context, desc, scratch));
    product_->Input(DNNL_ARG_SRC, src, factor, scratch);
    product_->Input(DNNL_ARG_WEIGHTS, desc.weights_desc(), desc.weights_desc(), scratch);
    product_->Output(DNNL_ARG_DST, dst, dst, scratch);
  }

  void Pack(const float* w, void* scratch) {
    w_ = w;
    if (pack_) pack_->Run(w, At<float>(scratch, packed_), scratch);
  }
  void Run(const float* from, float* to, void* scratch) {
    if (product_) {
      product_->Run({{DNNL_ARG_SRC, from},
                     {DNNL_ARG_WEIGHTS, At<float>(scratch, packed_)},
                     {DNNL_ARG_DST, to}},
                    scratch);
      return;
    }
    const int64_t stride = transposed_ ? in_ : out_;
    Gemm({n_, out_, in_}, {from, in_}, {w_, stride, transposed_}, {to, out_});
  }

 private:
  int64_t n_, in_, out_;
  bool transposed_;
  const float* w_ = nullptr;  // of the call
  std::optional<DnnlReorder> pack_;
  std::optional<RelaidPrimitive> product_;
  size_t packed_ = 0;
};

size_t FloatBytes(int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); }

// Where things lie. Gates [N, T, 4H] and cell states [N, T, H] are saved in training.
struct LstmMemory {
  LstmMemory(const LstmShape& s, bool training) : training(training) {
    Arena& kept = training ? saved : forward;
    gates = kept.Take(FloatBytes(s.rows() * s.gates()));
    cells = kept.Take(FloatBytes(s.rows() * s.h));
    h = forward.Take(FloatBytes(s.n * s.h));
    products = forward.Take(FloatBytes(s.n * s.gates()));
    gate_grads = backward.Take(FloatBytes(s.n * s.gates()));
    dh = backward.Take(FloatBytes(s.n * s.h));
    dc = backward.Take(FloatBytes(s.n * s.h));
    h_before = backward.Take(FloatBytes(s.rows() * s.h));
  }

  bool training;
  Arena saved, forward, backward;
  size_t gates, cells;
  size_t h, products;                   // of one step; forward
  size_t gate_grads, dh, dc, h_before;  // of one step, but h_before [N, T, H]; backward
};

// Over all steps, with G [N·T, 4H]: X·W_ihᵀ, and Gᵀ·X, Gᵀ·h_before, G·W_ih.
struct LstmProducts {
  LstmProducts(const LstmShape& s, const CpuContext& context, LstmMemory* m)
      : type(FactorType(context, s.rows(), std::min(s.d, s.h), s.gates())),
        gates(type, {s.rows(), s.gates(), s.d}, {s.d}, {s.d, true}, context, &m->forward),
        dw_ih(type, {s.gates(), s.d, s.rows()}, {s.gates(), true}, {s.d}, context, &m->backward),
        dw_hh(type, {s.gates(), s.h, s.rows()}, {s.gates(), true}, {s.h}, context, &m->backward),
        dx(type, {s.rows(), s.d, s.gates()}, {s.gates()}, {s.d}, context, &m->backward) {}

  dnnl::memory::data_type type;
  Product gates, dw_ih, dw_hh, dx;
};

class CpuLstm : public CpuKernel {
 public:
  struct Parts {
    KernelPlan plan;
    LstmShape shape;
    LstmMemory memory;
    RecurrentProduct forward_product, backward_product;
    LstmProducts products;
    std::vector<PlainInput> forward_inputs, backward_inputs;
    std::vector<PlainOutput> input_grads;
  };
  CpuLstm(Parts parts, const CpuContext& context)
      : CpuKernel(parts.plan, context), p_(std::move(parts)) {}

 protected:
  void RunForward(const ForwardArgs& a) override {
    const LstmShape& s = p_.shape;
    const LstmMemory& m = p_.memory;
    if (s.rows() == 0) return;
    void* kept = m.training ? a.saved : a.scratch;
    float* gates = At<float>(kept, m.gates);
    const float* x = p_.forward_inputs[0].Get(a.inputs[0], a.scratch);
    p_.products.gates.Run(x, a.params[0], gates, a.scratch);
    const float* h = s.state ? p_.forward_inputs[1].Get(a.inputs[1], a.scratch) : nullptr;
    SampleRows<const float> c = {
        s.state ? p_.forward_inputs[2].Get(a.inputs[2], a.scratch) : nullptr, s.h};
    if (s.t > 1 || s.state) p_.forward_product.Pack(a.params[1], a.scratch);
    for (int64_t step = 0; step < s.t; ++step) {
      const int64_t t = s.TimeOf(step);
      LstmStep work = {.hidden = s.h, .bias = a.params[2]};
      if (h != nullptr) {
        float* products = At<float>(a.scratch, m.products);
        p_.forward_product.Run(h, products, a.scratch);
        work.recurrent = products;
      }
      work.gates = {gates + t * s.gates(), s.t * s.gates()};
      work.c_before = c;
      work.c = {At<float>(kept, m.cells) + t * s.h, s.t * s.h};
      work.y = {static_cast<float*>(a.outputs[0]) + t * s.h, s.t * s.h};
      work.h = At<float>(a.scratch, m.h);
      ParallelFor(context(), s.n, 1,
                  [&](int64_t begin, int64_t end) { RunLstmStep(work, begin, end); });
      h = work.h;
      c = {work.c.data, work.c.stride};
    }
    if (!s.state) return;
    std::memcpy(a.outputs[1], h, FloatBytes(s.n * s.h));
    CopyRows(c, static_cast<float*>(a.outputs[2]));
  }

  void RunBackward(const BackwardArgs& a) override {
    const LstmShape& s = p_.shape;
    if (s.rows() == 0) return;
    const float* h_0 = s.state ? p_.backward_inputs[1].Get(a.inputs[1], a.scratch) : nullptr;
    const float* c_0 = s.state ? p_.backward_inputs[2].Get(a.inputs[2], a.scratch) : nullptr;
    float* gates = At<float>(a.saved, p_.memory.gates);
    GateGradients(a, c_0, gates);

    ParallelFor(context(), s.gates(), 64, [&](int64_t begin, int64_t end) {
      SumColumns(s.rows(), s.gates(), begin, end, gates, a.param_grads[2] + begin);
    });
    const float* x = p_.backward_inputs[0].Get(a.inputs[0], a.scratch);
    p_.products.dw_ih.Run(gates, x, a.param_grads[0], a.scratch);
    p_.products.dw_hh.Run(gates, StatesBefore(a, h_0), a.param_grads[1], a.scratch);
    if (a.input_grads[0] == nullptr) return;
    float* dx = p_.input_grads[0].Get(a.input_grads[0], a.scratch);
    p_.products.dx.Run(gates, a.params[0], dx, a.scratch);
    p_.input_grads[0].Finish(a.input_grads[0], a.scratch);
  }

 private:
  // From the last step to the first: gates [N, T, 4H] become gradients; then those of h_0 and c_0.
  void GateGradients(const BackwardArgs& a, const float* c_0, float* gates) {
    const LstmShape& s = p_.shape;
    const LstmMemory& m = p_.memory;
    const float* cells = At<float>(a.saved, m.cells);
    float* dh = At<float>(a.scratch, m.dh);
    float* dc = At<float>(a.scratch, m.dc);
    StartFrom(s.state ? a.output_grads[1] : nullptr, dh);
    StartFrom(s.state ? a.output_grads[2] : nullptr, dc);
    const bool dh_0_wanted = s.state && a.input_grads[1] != nullptr;
    if (s.t > 1 || dh_0_wanted) p_.backward_product.Pack(a.params[1], a.scratch);
    for (int64_t step = s.t - 1; step >= 0; --step) {
      const int64_t t = s.TimeOf(step);
      LstmStepGradient work = {.hidden = s.h};
      work.gates = {gates + t * s.gates(), s.t * s.gates()};
      work.gate_grads = At<float>(a.scratch, m.gate_grads);
      work.c = {cells + t * s.h, s.t * s.h};
      work.c_before = {c_0, s.h};
      if (step > 0) work.c_before = {cells + s.TimeOf(step - 1) * s.h, s.t * s.h};
      work.dy = {static_cast<const float*>(a.output_grads[0]) + t * s.h, s.t * s.h};
      work.dh = dh;
      work.dc = dc;
      ParallelFor(context(), s.n, 1,
                  [&](int64_t begin, int64_t end) { RunLstmStepGradient(work, begin, end); });
      if (step > 0 || dh_0_wanted) p_.backward_product.Run(work.gate_grads, dh, a.scratch);
    }
    if (!s.state) return;
    FinishState(1, dh, a);
    FinishState(2, dc, a);
  }

  void StartFrom(const void* gradient, float* to) const {
    const LstmShape& s = p_.shape;
    if (gradient == nullptr) {
      std::fill_n(to, s.n * s.h, 0.0f);
    } else {
      std::memcpy(to, gradient, FloatBytes(s.n * s.h));
    }
  }

  void FinishState(size_t input, const float* from, const BackwardArgs& a) {
    if (a.input_grads[input] == nullptr) return;
    PlainOutput& output = p_.input_grads[input];
    std::memcpy(output.Get(a.input_grads[input], a.scratch), from,
                FloatBytes(p_.shape.n * p_.shape.h));
    output.Finish(a.input_grads[input], a.scratch);
  }

  // h_{t−1} [N, T, H]: so that ∂L/∂W_hh is one product over all steps.
  const float* StatesBefore(const BackwardArgs& a, const float* h_0) const {
    const LstmShape& s = p_.shape;
    const auto* y = static_cast<const float*>(a.outputs[0]);
    float* h_before = At<float>(a.scratch, p_.memory.h_before);
    for (int64_t n = 0; n < s.n; ++n) {
      const float* from = y + n * s.t * s.h;
      float* to = h_before + n * s.t * s.h;
      float* first = to + s.TimeOf(0) * s.h;
      std::memcpy(s.reverse ? to : to + s.h, s.reverse ? from + s.h : from,
                  FloatBytes((s.t - 1) * s.h));
      if (h_0 == nullptr) {
        std::fill_n(first, s.h, 0.0f);
      } else {
        std::memcpy(first, h_0 + n * s.h, FloatBytes(s.h));
      }
    }
    return h_before;
  }

  void CopyRows(SampleRows<const float> from, float* to) const {
    const LstmShape& s = p_.shape;
    for (int64_t n = 0; n < s.n; ++n) {
      std::memcpy(to + n * s.h, from.row(n), FloatBytes(s.h));
    }
  }

  Parts p_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeLstm(const Lstm& op, const KernelRequest& request,
                                                 const CpuContext& context) {
  return GuardedMake(request, context, [&]() -> std::unique_ptr<Kernel> {
    const std::vector<int64_t>& x = request.inputs[0].spec.shape;
    const LstmShape shape = {x[0], x[1], x[2], op.hidden, op.state, op.reverse};
    LstmMemory memory(shape, request.training);
    RecurrentProduct forward_product(shape, true, context, &memory.forward);
    RecurrentProduct backward_product(shape, false, context, &memory.backward);
    LstmProducts products(shape, context, &memory);
    std::vector<PlainInput> forward_inputs, backward_inputs;
    std::vector<PlainOutput> input_grads;
    for (const Format& input : request.inputs) {
      forward_inputs.emplace_back(input, context, &memory.forward);
      backward_inputs.emplace_back(input, context, &memory.backward);
      input_grads.emplace_back(input, context, &memory.backward);
    }
    KernelPlan plan = {.saved_bytes = memory.saved.bytes(),
                       .forward_scratch_bytes = memory.forward.bytes(),
                       .backward_scratch_bytes = memory.backward.bytes()};
    for (const TensorSpec& spec : request.outputs) plan.outputs.push_back(PlainFormat(spec));
    plan.backward_reads_input.assign(request.inputs.size(), true);
    plan.backward_reads_output.assign(request.outputs.size(), false);
    plan.backward_reads_output[0] = true;
    return std::make_unique<CpuLstm>(
        CpuLstm::Parts{std::move(plan), shape, memory, std::move(forward_product),
                       std::move(backward_product), std::move(products), std::move(forward_inputs),
                       std::move(backward_inputs), std::move(input_grads)},
        context);
  });
}

}  // namespace soapstone::compute
