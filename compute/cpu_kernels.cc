#include "compute/cpu_kernels.h"

#include <cstddef>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "dnnl.hpp"
#include "glog/logging.h"

// Of the OpenMP runtime that oneDNN is linked with. Declared here, as clang has no omp.h of it.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int);
}

namespace soapstone::compute {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

Desc Md(const Dims& dims, Tag tag) { return Desc(dims, dnnl::memory::data_type::f32, tag); }

// oneDNN splits work, and so orders its sums, by the number of OpenMP threads. For the time of a
// call the calling thread has one, wherever the caller runs and whatever OMP_NUM_THREADS says.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

// The tensor that oneDNN's argument number `arg` stands for. oneDNN's handles are not const; it
// does not write what is an input of the primitive.
absl::Span<float> TensorOf(int arg, const ForwardArgs& a) {
  const auto writable = [](absl::Span<const float> s) {
    return absl::Span<float>(const_cast<float*>(s.data()), s.size());
  };
  switch (arg) {
    case DNNL_ARG_SRC:
      return writable(a.input);
    case DNNL_ARG_WEIGHTS:
      return writable(a.weight);
    case DNNL_ARG_BIAS:
      return writable(a.bias);
    case DNNL_ARG_DST:
      return a.output;
    default:
      LOG(FATAL) << "forward argument " << arg;
  }
}

absl::Span<float> TensorOf(int arg, const BackwardArgs& a) {
  const auto writable = [](absl::Span<const float> s) {
    return absl::Span<float>(const_cast<float*>(s.data()), s.size());
  };
  switch (arg) {
    case DNNL_ARG_SRC:
      return writable(a.input);
    case DNNL_ARG_WEIGHTS:
      return writable(a.weight);
    case DNNL_ARG_DIFF_DST:
      return writable(a.output_grad);
    case DNNL_ARG_DIFF_SRC:
      return a.input_grad;
    case DNNL_ARG_DIFF_WEIGHTS:
      return a.weight_grad;
    case DNNL_ARG_DIFF_BIAS:
      return a.bias_grad;
    default:
      LOG(FATAL) << "backward argument " << arg;
  }
}

// One primitive with its tensors, each in the caller's layout and, where the primitive chose
// another, in that too.
class Pass {
 public:
  Pass(const dnnl::engine& engine, dnnl::primitive primitive)
      : engine_(engine), stream_(engine), primitive_(std::move(primitive)) {}

  void AddInput(int arg, const Desc& plain, const Desc& inner) { Add(arg, true, plain, inner); }
  void AddOutput(int arg, const Desc& plain, const Desc& inner) { Add(arg, false, plain, inner); }
  // A tensor of the kernel's own, as max pooling's workspace.
  void AddOwn(int arg, const dnnl::memory& memory) { arguments_[arg] = memory; }

  template <typename Args>
  void Run(const Args& args) {
    const OneThread one_thread;
    try {
      for (Tensor& t : tensors_) {
        const absl::Span<float> data = TensorOf(t.arg, args);
        CHECK_EQ(data.size() * sizeof(float), t.plain.get_desc().get_size());
        t.plain.set_data_handle(data.data());
        if (t.reorder && t.is_input) t.reorder->execute(stream_, t.plain, t.inner);
      }
      primitive_.execute(stream_, arguments_);
      for (Tensor& t : tensors_) {
        if (t.reorder && !t.is_input) t.reorder->execute(stream_, t.inner, t.plain);
      }
      stream_.wait();
    } catch (const dnnl::error& e) {
      LOG(FATAL) << "oneDNN: " << e.what();
    }
  }

 private:
  struct Tensor {
    int arg;
    bool is_input;
    dnnl::memory plain;  // the caller's memory, bound at each run
    dnnl::memory inner;  // the same object where layouts agree
    std::optional<dnnl::reorder> reorder;
  };

  void Add(int arg, bool is_input, const Desc& plain, const Desc& inner) {
    Tensor t = {arg, is_input, dnnl::memory(plain, engine_, DNNL_MEMORY_NONE), {}, {}};
    if (plain == inner) {
      t.inner = t.plain;
    } else {
      t.inner = dnnl::memory(inner, engine_);
      t.reorder = is_input ? dnnl::reorder(t.plain, t.inner) : dnnl::reorder(t.inner, t.plain);
    }
    arguments_[arg] = t.inner;
    tensors_.push_back(std::move(t));
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::vector<Tensor> tensors_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

// Forward, ∂L/∂X and, where the operator has weights, ∂L/∂W with ∂L/∂b.
class DnnlKernel : public Kernel {
 public:
  DnnlKernel(Pass forward, Pass backward_data, std::optional<Pass> backward_weights)
      : forward_(std::move(forward)),
        backward_data_(std::move(backward_data)),
        backward_weights_(std::move(backward_weights)) {}

  void Forward(const ForwardArgs& args) override { forward_.Run(args); }
  void Backward(const BackwardArgs& args) override {
    if (!args.input_grad.empty()) backward_data_.Run(args);
    if (backward_weights_) backward_weights_->Run(args);
  }

 private:
  Pass forward_;
  Pass backward_data_;
  std::optional<Pass> backward_weights_;
};

// What oneDNN throws, as a Status. `what` names the kernel for the message.
absl::StatusOr<std::unique_ptr<Kernel>> Guarded(
    const char* what, const std::function<std::unique_ptr<Kernel>(const dnnl::engine&)>& make) {
  const OneThread one_thread;
  try {
    return make(dnnl::engine(dnnl::engine::kind::cpu, 0));
  } catch (const dnnl::error& e) {
    return absl::InternalError(absl::StrCat(what, ": oneDNN cannot prepare it: ", e.what()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": out of memory"));
  }
}

// The plain layouts of an operator with weights.
struct Layouts {
  Desc x, w, b, y;
};

// Linear and conv2d have primitives of one form; `F`, `D`, `W` are the three primitives' types.
template <typename F, typename D, typename W>
std::unique_ptr<Kernel> Weighted(const dnnl::engine& engine, const Layouts& plain,
                                 const typename F::primitive_desc& f,
                                 const typename D::primitive_desc& d,
                                 const typename W::primitive_desc& w) {
  Pass forward(engine, F(f));
  forward.AddInput(DNNL_ARG_SRC, plain.x, f.src_desc());
  forward.AddInput(DNNL_ARG_WEIGHTS, plain.w, f.weights_desc());
  forward.AddInput(DNNL_ARG_BIAS, plain.b, f.bias_desc());
  forward.AddOutput(DNNL_ARG_DST, plain.y, f.dst_desc());
  Pass data(engine, D(d));
  data.AddInput(DNNL_ARG_DIFF_DST, plain.y, d.diff_dst_desc());
  data.AddInput(DNNL_ARG_WEIGHTS, plain.w, d.weights_desc());
  data.AddOutput(DNNL_ARG_DIFF_SRC, plain.x, d.diff_src_desc());
  Pass weights(engine, W(w));
  weights.AddInput(DNNL_ARG_SRC, plain.x, w.src_desc());
  weights.AddInput(DNNL_ARG_DIFF_DST, plain.y, w.diff_dst_desc());
  weights.AddOutput(DNNL_ARG_DIFF_WEIGHTS, plain.w, w.diff_weights_desc());
  weights.AddOutput(DNNL_ARG_DIFF_BIAS, plain.b, w.diff_bias_desc());
  return std::make_unique<DnnlKernel>(std::move(forward), std::move(data), std::move(weights));
}

std::unique_ptr<Kernel> Linear(const dnnl::engine& engine, const LinearShape& s) {
  using F = dnnl::inner_product_forward;
  using D = dnnl::inner_product_backward_data;
  using W = dnnl::inner_product_backward_weights;
  const Layouts plain = {Md({s.samples, s.inputs}, Tag::ab), Md({s.outputs, s.inputs}, Tag::ab),
                         Md({s.outputs}, Tag::a), Md({s.samples, s.outputs}, Tag::ab)};
  const F::primitive_desc f(
      F::desc(dnnl::prop_kind::forward_training, plain.x, plain.w, plain.b, plain.y), engine);
  const D::primitive_desc d(D::desc(plain.x, plain.w, plain.y), engine, f);
  const W::primitive_desc w(W::desc(plain.x, plain.w, plain.b, plain.y), engine, f);
  return Weighted<F, D, W>(engine, plain, f, d, w);
}

std::unique_ptr<Kernel> Conv2d(const dnnl::engine& engine, const Conv2dShape& s) {
  using F = dnnl::convolution_forward;
  using D = dnnl::convolution_backward_data;
  using W = dnnl::convolution_backward_weights;
  const Dims x = {s.samples, s.in_channels, s.height, s.width};
  const Dims w = {s.out_channels, s.in_channels, s.kernel, s.kernel};
  const Dims y = {s.samples, s.out_channels, s.out_height(), s.out_width()};
  const Dims stride = {s.stride, s.stride};
  const Dims pad = {s.padding, s.padding};
  const Layouts plain = {Md(x, Tag::nchw), Md(w, Tag::oihw), Md({s.out_channels}, Tag::a),
                         Md(y, Tag::nchw)};
  const Layouts chosen = {Md(x, Tag::any), Md(w, Tag::any), plain.b, Md(y, Tag::any)};
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const F::primitive_desc f(F::desc(dnnl::prop_kind::forward_training, algorithm, chosen.x,
                                    chosen.w, chosen.b, chosen.y, stride, pad, pad),
                            engine);
  const D::primitive_desc d(D::desc(algorithm, chosen.x, chosen.w, chosen.y, stride, pad, pad),
                            engine, f);
  const W::primitive_desc dw(
      W::desc(algorithm, chosen.x, chosen.w, chosen.b, chosen.y, stride, pad, pad), engine, f);
  return Weighted<F, D, W>(engine, plain, f, d, dw);
}

std::unique_ptr<Kernel> Pool(const dnnl::engine& engine, const PoolShape& s) {
  using F = dnnl::pooling_forward;
  using B = dnnl::pooling_backward;
  const Desc x = Md({s.samples, s.channels, s.height, s.width}, Tag::nchw);
  const Desc y = Md({s.samples, s.channels, s.out_height(), s.out_width()}, Tag::nchw);
  const Dims stride = {s.stride, s.stride};
  const Dims kernel = {s.kernel, s.kernel};
  const Dims pad = {0, 0};
  const auto algorithm = s.kind == PoolKind::kMax ? dnnl::algorithm::pooling_max
                                                  : dnnl::algorithm::pooling_avg_exclude_padding;
  const F::primitive_desc f(
      F::desc(dnnl::prop_kind::forward_training, algorithm, x, y, stride, kernel, pad, pad),
      engine);
  const B::primitive_desc b(B::desc(algorithm, x, y, stride, kernel, pad, pad), engine, f);
  Pass forward(engine, F(f));
  forward.AddInput(DNNL_ARG_SRC, x, f.src_desc());
  forward.AddOutput(DNNL_ARG_DST, y, f.dst_desc());
  Pass backward(engine, B(b));
  backward.AddInput(DNNL_ARG_DIFF_DST, y, b.diff_dst_desc());
  backward.AddOutput(DNNL_ARG_DIFF_SRC, x, b.diff_src_desc());
  if (s.kind == PoolKind::kMax) {
    const dnnl::memory workspace(f.workspace_desc(), engine);
    forward.AddOwn(DNNL_ARG_WORKSPACE, workspace);
    backward.AddOwn(DNNL_ARG_WORKSPACE, workspace);
  }
  return std::make_unique<DnnlKernel>(std::move(forward), std::move(backward), std::nullopt);
}

std::unique_ptr<Kernel> Relu(const dnnl::engine& engine, int64_t elements) {
  using F = dnnl::eltwise_forward;
  using B = dnnl::eltwise_backward;
  const Desc x = Md({elements}, Tag::a);
  const auto algorithm = dnnl::algorithm::eltwise_relu;
  const F::primitive_desc f(F::desc(dnnl::prop_kind::forward_training, algorithm, x, 0.0f), engine);
  const B::primitive_desc b(B::desc(algorithm, x, x, 0.0f), engine, f);
  Pass forward(engine, F(f));
  forward.AddInput(DNNL_ARG_SRC, x, f.src_desc());
  forward.AddOutput(DNNL_ARG_DST, x, f.dst_desc());
  Pass backward(engine, B(b));
  backward.AddInput(DNNL_ARG_SRC, x, b.src_desc());
  backward.AddInput(DNNL_ARG_DIFF_DST, x, b.diff_dst_desc());
  backward.AddOutput(DNNL_ARG_DIFF_SRC, x, b.diff_src_desc());
  return std::make_unique<DnnlKernel>(std::move(forward), std::move(backward), std::nullopt);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeCpuLinear(const LinearShape& shape) {
  return Guarded("linear", [&](const dnnl::engine& engine) { return Linear(engine, shape); });
}
absl::StatusOr<std::unique_ptr<Kernel>> MakeCpuConv2d(const Conv2dShape& shape) {
  return Guarded("conv2d", [&](const dnnl::engine& engine) { return Conv2d(engine, shape); });
}
absl::StatusOr<std::unique_ptr<Kernel>> MakeCpuPool(const PoolShape& shape) {
  return Guarded("pool", [&](const dnnl::engine& engine) { return Pool(engine, shape); });
}
absl::StatusOr<std::unique_ptr<Kernel>> MakeCpuRelu(int64_t elements) {
  return Guarded("relu", [&](const dnnl::engine& engine) { return Relu(engine, elements); });
}

}  // namespace soapstone::compute
