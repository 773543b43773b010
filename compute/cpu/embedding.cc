#include "compute/cpu/embedding.h"

#include <algorithm>
#include <cstring>

#include "compute/cpu/formats.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

class CpuEmbedding : public CpuKernel {
 public:
  CpuEmbedding(KernelPlan plan, const Embedding& op, int64_t ids, const CpuContext& context)
      : CpuKernel(std::move(plan), context), rows_(op.rows), dim_(op.dim), ids_(ids) {}

 protected:
  void RunForward(const ForwardArgs& a) override {
    const int32_t* ids = Ids(a.inputs[0]);
    auto* y = static_cast<float*>(a.outputs[0]);
    ParallelFor(context(), ids_, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(y + i * dim_, a.params[0] + ids[i] * dim_,
                    static_cast<size_t>(dim_) * sizeof(float));
      }
    });
  }

  // Each thread has rows of its own, and adds to them in the order of the ids.
  void RunBackward(const BackwardArgs& a) override {
    const int32_t* ids = Ids(a.inputs[0]);
    const auto* dy = static_cast<const float*>(a.output_grads[0]);
    float* gradient = a.param_grads[0];
    ParallelFor(context(), rows_, 16, [&](int64_t begin, int64_t end) {
      std::fill(gradient + begin * dim_, gradient + end * dim_, 0.0f);
      for (int64_t i = 0; i < ids_; ++i) {
        if (ids[i] < begin || ids[i] >= end) continue;
        float* row = gradient + ids[i] * dim_;
        const float* from = dy + i * dim_;
        for (int64_t j = 0; j < dim_; ++j) row[j] += from[j];
      }
    });
  }

 private:
  const int32_t* Ids(const void* input) const {
    const auto* ids = static_cast<const int32_t*>(input);
    for (int64_t i = 0; i < ids_; ++i) {
      CHECK(ids[i] >= 0 && ids[i] < rows_) << "id " << ids[i] << " of " << rows_ << " rows";
    }
    return ids;
  }

  const int64_t rows_, dim_, ids_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeEmbedding(const Embedding& op,
                                                      const KernelRequest& request,
                                                      const CpuContext& context) {
  KernelPlan plan = {.outputs = {PlainFormat(request.outputs[0])},
                     .backward_reads_input = {true},
                     .backward_reads_output = {false}};
  return std::make_unique<CpuEmbedding>(std::move(plan), op, request.inputs[0].spec.elements(),
                                        context);
}

}  // namespace soapstone::compute
