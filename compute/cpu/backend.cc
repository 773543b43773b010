#include "compute/cpu/backend.h"

#include <cstdlib>
#include <cstring>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compute/cpu/activation.h"
#include "compute/cpu/add.h"
#include "compute/cpu/add_parameter.h"
#include "compute/cpu/additive_attention.h"
#include "compute/cpu/batch_moments.h"
#include "compute/cpu/batch_norm.h"
#include "compute/cpu/concat.h"
#include "compute/cpu/context.h"
#include "compute/cpu/conv2d.h"
#include "compute/cpu/dropout.h"
#include "compute/cpu/embedding.h"
#include "compute/cpu/formats.h"
#include "compute/cpu/layer_norm.h"
#include "compute/cpu/linear.h"
#include "compute/cpu/local_response_norm.h"
#include "compute/cpu/lstm.h"
#include "compute/cpu/multi_head_attention.h"
#include "compute/cpu/multiply.h"
#include "compute/cpu/normalize_by_moments.h"
#include "compute/cpu/pairwise_dot.h"
#include "compute/cpu/pool.h"
#include "compute/cpu/reduce.h"
#include "compute/cpu/reshape.h"
#include "compute/cpu/softmax_cross_entropy.h"
#include "compute/cpu/split.h"
#include "compute/cpu/transpose.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

using MadeKernel = absl::StatusOr<std::unique_ptr<Kernel>>;

struct KernelMaker {
  const KernelRequest& request;
  const CpuContext& context;

  MadeKernel operator()(const Linear& op) const { return MakeLinear(op, request, context); }
  MadeKernel operator()(const Conv2d& op) const { return MakeConv2d(op, request, context); }
  MadeKernel operator()(const Pool& op) const { return MakePool(op, request, context); }
  MadeKernel operator()(const BatchNorm& op) const { return MakeBatchNorm(op, request, context); }
  MadeKernel operator()(const BatchMoments& op) const {
    return MakeBatchMoments(op, request, context);
  }
  MadeKernel operator()(const NormalizeByMoments& op) const {
    return MakeNormalizeByMoments(op, request, context);
  }
  MadeKernel operator()(const LayerNorm& op) const { return MakeLayerNorm(op, request, context); }
  MadeKernel operator()(const LocalResponseNorm& op) const {
    return MakeLocalResponseNorm(op, request, context);
  }
  MadeKernel operator()(const Embedding& op) const { return MakeEmbedding(op, request, context); }
  MadeKernel operator()(const Lstm& op) const { return MakeLstm(op, request, context); }
  MadeKernel operator()(const MultiHeadAttention& op) const {
    return MakeMultiHeadAttention(op, request, context);
  }
  MadeKernel operator()(const AdditiveAttention& op) const {
    return MakeAdditiveAttention(op, request, context);
  }
  MadeKernel operator()(const PairwiseDot& op) const {
    return MakePairwiseDot(op, request, context);
  }
  MadeKernel operator()(const Activation& op) const { return MakeActivation(op, request, context); }
  MadeKernel operator()(const Dropout& op) const { return MakeDropout(op, request, context); }
  MadeKernel operator()(const Add& op) const { return MakeAdd(op, request, context); }
  MadeKernel operator()(const Multiply& op) const { return MakeMultiply(op, request, context); }
  MadeKernel operator()(const AddParameter& op) const {
    return MakeAddParameter(op, request, context);
  }
  MadeKernel operator()(const Concat& op) const { return MakeConcat(op, request, context); }
  MadeKernel operator()(const Split& op) const { return MakeSplit(op, request, context); }
  MadeKernel operator()(const Reshape& op) const { return MakeReshape(op, request, context); }
  MadeKernel operator()(const Transpose& op) const { return MakeTranspose(op, request, context); }
  MadeKernel operator()(const Reduce& op) const { return MakeReduce(op, request, context); }
  MadeKernel operator()(const SoftmaxCrossEntropy& op) const {
    return MakeSoftmaxCrossEntropy(op, request, context);
  }
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options) : context_(options) {}

  std::string_view name() const override { return "cpu"; }

  MadeKernel Prepare(const KernelRequest& request) override {
    const CpuThreads guard(context_.threads);
    return std::visit(KernelMaker{request, context_}, request.op);
  }

  absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes) override {
    const size_t rounded = (bytes + 63) / 64 * 64;
    void* memory = std::aligned_alloc(64, rounded == 0 ? 64 : rounded);
    if (memory == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for ", bytes, " bytes; take a smaller batch or model"));
    }
    return std::shared_ptr<void>(memory, std::free);
  }

  void Import(const void* plain, const Format& format, void* tensor) override {
    Convert(PlainFormat(format.spec), plain, format, tensor);
  }
  void Export(const Format& format, const void* tensor, void* plain) override {
    Convert(format, tensor, PlainFormat(format.spec), plain);
  }

 private:
  void Convert(const Format& from, const void* source, const Format& to, void* target) {
    if (from.plain() && to.plain()) {
      if (source != target) std::memcpy(target, source, from.bytes);
      return;
    }
    const CpuThreads guard(context_.threads);
    try {
      dnnl::memory a(DescOf(from), context_.engine, const_cast<void*>(source));
      dnnl::memory b(DescOf(to), context_.engine, target);
      dnnl::reorder(a, b).execute(context_.stream, a, b);
    } catch (const dnnl::error& e) {
      LOG(FATAL) << "oneDNN: " << e.what();
    }
  }

  const CpuContext context_;
};

}  // namespace

absl::Status CheckCpuPrecision(CpuPrecision precision) {
  // What oneDNN uses is a set of bits, of which later processors have all (AMX too).
  constexpr auto kBf16Isa = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  if (precision == CpuPrecision::kFloat32 || (isa & kBf16Isa) == kBf16Isa) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "precision bf16: this processor has neither avx512_bf16 nor AMX; take float32");
}

std::unique_ptr<Backend> MakeCpuBackend(const CpuOptions& options) {
  CHECK(CheckCpuPrecision(options.precision).ok()) << "precision";
  return std::make_unique<CpuBackend>(options);
}

}  // namespace soapstone::compute
