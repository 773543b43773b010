#include "compute/cpu/add_parameter.h"

#include <algorithm>
#include <cstring>

#include "base/vectors.h"
#include "compute/cpu/column_sum.h"
#include "compute/cpu/formats.h"

namespace soapstone::compute {
namespace {

SOAPSTONE_EACH_VECTOR_WIDTH void AddToSample(int64_t n, const float* x, const float* b, float* y) {
  SOAPSTONE_ELEMENTWISE
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] + b[i];
}

class CpuAddParameter : public CpuKernel {
 public:
  struct Parts {
    KernelPlan plan;
    int64_t samples = 0, elements = 0;  // elements of one sample
    PlainInput x;
    PlainOutput dx;
  };
  CpuAddParameter(Parts parts, const CpuContext& context)
      : CpuKernel(parts.plan, context), p_(std::move(parts)) {}

 protected:
  void RunForward(const ForwardArgs& a) override {
    const float* x = p_.x.Get(a.inputs[0], a.scratch);
    auto* y = static_cast<float*>(a.outputs[0]);
    ParallelFor(context(), p_.samples, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        AddToSample(p_.elements, x + n * p_.elements, a.params[0], y + n * p_.elements);
      }
    });
  }

  void RunBackward(const BackwardArgs& a) override {
    const auto* dy = static_cast<const float*>(a.output_grads[0]);
    ParallelFor(context(), p_.elements, 64, [&](int64_t begin, int64_t end) {
      SumColumns(p_.samples, p_.elements, begin, end, dy, a.param_grads[0] + begin);
    });
    if (a.input_grads[0] == nullptr || a.input_grads[0] == dy) return;
    std::memcpy(p_.dx.Get(a.input_grads[0], a.scratch), dy,
                static_cast<size_t>(p_.samples * p_.elements) * sizeof(float));
    p_.dx.Finish(a.input_grads[0], a.scratch);
  }

 private:
  Parts p_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeAddParameter(const AddParameter&,
                                                         const KernelRequest& request,
                                                         const CpuContext& context) {
  return GuardedMake(request, context, [&]() -> std::unique_ptr<Kernel> {
    const Format& x = request.inputs[0];
    Arena forward, backward;
    CpuAddParameter::Parts parts = {.samples = x.spec.shape[0],
                                    .elements = request.params[0].elements(),
                                    .x = PlainInput(x, context, &forward),
                                    .dx = PlainOutput(x, context, &backward)};
    parts.plan = {.outputs = {PlainFormat(request.outputs[0])},
                  .forward_scratch_bytes = forward.bytes(),
                  .backward_scratch_bytes = backward.bytes(),
                  .backward_reads_input = {false},
                  .backward_reads_output = {false},
                  .forward_in_place = x.plain(),
                  .backward_in_place = x.plain()};
    return std::make_unique<CpuAddParameter>(std::move(parts), context);
  });
}

}  // namespace soapstone::compute
