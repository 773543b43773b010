#include "compute/cpu/dropout.h"

#include <algorithm>
#include <bit>

#include "base/vectors.h"
#include "compute/cpu/formats.h"
#include "compute/dropout_mask.h"

namespace soapstone::compute {
namespace {

// keep [count] of words [count]
SOAPSTONE_EACH_VECTOR_WIDTH void KeepOf(int64_t count, uint32_t threshold, const uint32_t* words,
                                        uint8_t* keep) {
  SOAPSTONE_ELEMENTWISE
  for (int64_t i = 0; i < count; ++i) keep[i] = words[i] >= threshold ? 1 : 0;
}

// y = x·scale where kept, 0 elsewhere (also where x is no number). y may be x.
SOAPSTONE_EACH_VECTOR_WIDTH void ScaleKept(int64_t count, float scale, const uint8_t* keep,
                                           const float* x, float* y) {
  SOAPSTONE_ELEMENTWISE
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t mask = 0u - keep[i];
    y[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(x[i] * scale) & mask);
  }
}

class CpuDropout : public CpuKernel {
 public:
  struct Parts {
    KernelPlan plan;
    Dropout op;
    uint64_t seed = 0;
    uint32_t op_index = 0;
    int64_t samples = 0, elements = 0;  // elements of one sample
    PlainInput x;
    PlainOutput dx;
  };
  CpuDropout(Parts parts, const CpuContext& context)
      : CpuKernel(parts.plan, context),
        p_(std::move(parts)),
        scale_(static_cast<float>(1 / (1 - p_.op.rate))) {}

 protected:
  // What is kept is saved, a byte an element: to draw it again costs more than to read it.
  void RunForward(const ForwardArgs& a) override {
    const CounterRandom stream = DropoutStream(p_.seed, a.step, p_.op_index);
    const float* x = p_.x.Get(a.inputs[0], a.scratch);
    auto* y = static_cast<float*>(a.outputs[0]);
    auto* keep = static_cast<uint8_t*>(a.saved);
    const int64_t chunks = (p_.elements + kChunk - 1) / kChunk;
    ParallelFor(context(), p_.samples * chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t sample = i / chunks, first = i % chunks * kChunk;
        const int64_t count = std::min(kChunk, p_.elements - first);
        const int64_t at = sample * p_.elements + first;
        uint32_t words[kChunk];
        stream.Blocks(
            DropoutBlock(a.first_sample + static_cast<uint64_t>(sample), p_.elements, first / 4),
            static_cast<size_t>((count + 3) / 4), words);
        KeepOf(count, DropoutThreshold(p_.op.rate), words, keep + at);
        ScaleKept(count, scale_, keep + at, x + at, y + at);
      }
    });
  }

  void RunBackward(const BackwardArgs& a) override {
    if (a.input_grads[0] == nullptr) return;
    const auto* keep = static_cast<const uint8_t*>(a.saved);
    const auto* dy = static_cast<const float*>(a.output_grads[0]);
    float* dx = p_.dx.Get(a.input_grads[0], a.scratch);
    ParallelFor(context(), p_.samples * p_.elements, kChunk, [&](int64_t begin, int64_t end) {
      ScaleKept(end - begin, scale_, keep + begin, dy + begin, dx + begin);
    });
    p_.dx.Finish(a.input_grads[0], a.scratch);
  }

 private:
  static constexpr int64_t kChunk = 1024;

  Parts p_;
  const float scale_;
};

// Evaluation: Y is X.
class CpuDropoutOff : public Kernel {
 public:
  using Kernel::Kernel;
  void Forward(const ForwardArgs&) override {}
  void Backward(const BackwardArgs&) override {}
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeDropout(const Dropout& op, const KernelRequest& request,
                                                    const CpuContext& context) {
  const Format& x = request.inputs[0];
  if (!request.training) {
    return std::make_unique<CpuDropoutOff>(KernelPlan{.outputs = {x},
                                                      .backward_reads_input = {false},
                                                      .backward_reads_output = {false},
                                                      .alias = true});
  }
  return GuardedMake(request, context, [&]() -> std::unique_ptr<Kernel> {
    Arena forward, backward;
    const int64_t samples = x.spec.shape[0];
    const int64_t elements = samples == 0 ? 0 : x.spec.elements() / samples;
    CpuDropout::Parts parts = {.op = op,
                               .seed = request.seed,
                               .op_index = request.op_index,
                               .samples = samples,
                               .elements = elements,
                               .x = PlainInput(x, context, &forward),
                               .dx = PlainOutput(x, context, &backward)};
    parts.plan = {.outputs = {PlainFormat(request.outputs[0])},
                  .saved_bytes = static_cast<size_t>(samples * elements),
                  .forward_scratch_bytes = forward.bytes(),
                  .backward_scratch_bytes = backward.bytes(),
                  .backward_reads_input = {false},
                  .backward_reads_output = {false},
                  .forward_in_place = x.plain(),
                  .backward_in_place = x.plain()};
    return std::make_unique<CpuDropout>(std::move(parts), context);
  });
}

}  // namespace soapstone::compute
