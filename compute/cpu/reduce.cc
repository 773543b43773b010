#include "compute/cpu/reduce.h"

#include <algorithm>
#include <vector>

#include "base/vectors.h"
#include "compute/cpu/formats.h"
#include "compute/cpu/plain_inputs.h"

namespace soapstone::compute {
namespace {

// Sums over the middle of [outer, reduced, inner]; a reduction is one or several, one after the
// other, over the result of the one before.
struct ReduceStage {
  int64_t outer = 1, reduced = 1, inner = 1;
  int64_t grain() const { return (1 << 14) / (reduced * inner) + 1; }
};

// Elements of a row that are summed side by side: as many chains of additions hide their latency.
constexpr int64_t kReduceLanes = 64;

// y[o] = scale · Σ_r x[o, r]
SOAPSTONE_EACH_VECTOR_WIDTH void SumRows(const float* x, float* y, int64_t rows, int64_t reduced,
                                         float scale) {
  for (int64_t o = 0; o < rows; ++o) {
    const float* row = x + o * reduced;
    float lanes[kReduceLanes] = {};
    int64_t r = 0;
    for (; r + kReduceLanes <= reduced; r += kReduceLanes) {
      for (int64_t j = 0; j < kReduceLanes; ++j) lanes[j] += row[r + j];
    }
    for (int64_t j = 0; r + j < reduced; ++j) lanes[j] += row[r + j];
    for (int64_t half = kReduceLanes / 2; half > 0; half /= 2) {
      for (int64_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
    }
    y[o] = scale * lanes[0];
  }
}

// y[o, i] = scale · Σ_r x[o, r, i], for up to kReduceLanes of i at a time.
SOAPSTONE_EACH_VECTOR_WIDTH void SumColumns(const float* x, float* y, ReduceStage s, float scale) {
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t i = 0; i < s.inner; i += kReduceLanes) {
      const float* from = x + o * s.reduced * s.inner + i;
      const int64_t n = std::min(kReduceLanes, s.inner - i);
      float lanes[kReduceLanes] = {};
      if (n == 16) {  // one block of channels
        for (int64_t r = 0; r < s.reduced; ++r) {
          for (int64_t j = 0; j < 16; ++j) lanes[j] += from[r * s.inner + j];
        }
      } else {
        for (int64_t r = 0; r < s.reduced; ++r) {
          for (int64_t j = 0; j < n; ++j) lanes[j] += from[r * s.inner + j];
        }
      }
      for (int64_t j = 0; j < n; ++j) y[o * s.inner + i + j] = scale * lanes[j];
    }
  }
}

// dx[o, r, i] = scale · dy[o, i]
SOAPSTONE_EACH_VECTOR_WIDTH void SpreadColumns(const float* dy, float* dx, ReduceStage s,
                                               float scale) {
  for (int64_t o = 0; o < s.outer; ++o) {
    const float* from = dy + o * s.inner;
    for (int64_t r = 0; r < s.reduced; ++r) {
      float* to = dx + (o * s.reduced + r) * s.inner;
      SOAPSTONE_ELEMENTWISE
      for (int64_t i = 0; i < s.inner; ++i) to[i] = scale * from[i];
    }
  }
}

SOAPSTONE_EACH_VECTOR_WIDTH void SpreadRows(const float* dy, float* dx, int64_t rows,
                                            int64_t reduced, float scale) {
  for (int64_t o = 0; o < rows; ++o) {
    const float value = scale * dy[o];
    float* to = dx + o * reduced;
    for (int64_t r = 0; r < reduced; ++r) to[r] = value;
  }
}

void SumStage(const CpuContext& context, const ReduceStage& s, const float* x, float* y,
              float scale) {
  ParallelFor(context, s.outer, s.grain(), [&](int64_t begin, int64_t end) {
    const float* from = x + begin * s.reduced * s.inner;
    float* to = y + begin * s.inner;
    if (s.inner == 1) {
      SumRows(from, to, end - begin, s.reduced, scale);
    } else {
      SumColumns(from, to, {end - begin, s.reduced, s.inner}, scale);
    }
  });
}

void SpreadStage(const CpuContext& context, const ReduceStage& s, const float* dy, float* dx,
                 float scale) {
  ParallelFor(context, s.outer, s.grain(), [&](int64_t begin, int64_t end) {
    const float* from = dy + begin * s.inner;
    float* to = dx + begin * s.reduced * s.inner;
    if (s.inner == 1) {
      SpreadRows(from, to, end - begin, s.reduced, scale);
    } else {
      SpreadColumns(from, to, {end - begin, s.reduced, s.inner}, scale);
    }
  });
}

class ReduceKernel : public CpuKernel {
 public:
  // between[i]: where in scratch the result of stage i lies; none of the last.
  ReduceKernel(KernelPlan plan, const CpuContext& context, std::vector<ReduceStage> stages,
               std::vector<size_t> between, float scale)
      : CpuKernel(std::move(plan), context),
        stages_(std::move(stages)),
        between_(std::move(between)),
        scale_(scale) {}

 protected:
  void RunForward(const ForwardArgs& args) override {
    const float* x = static_cast<const float*>(args.inputs[0]);
    for (size_t i = 0; i < stages_.size(); ++i) {
      const bool last = i + 1 == stages_.size();
      float* y = last ? static_cast<float*>(args.outputs[0]) : At<float>(args.scratch, between_[i]);
      SumStage(context(), stages_[i], x, y, last ? scale_ : 1.0f);
      x = y;
    }
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    const float* dy = static_cast<const float*>(args.output_grads[0]);
    for (size_t i = stages_.size(); i-- > 0;) {
      float* dx = i == 0 ? static_cast<float*>(args.input_grads[0])
                         : At<float>(args.scratch, between_[i - 1]);
      SpreadStage(context(), stages_[i], dy, dx, i + 1 == stages_.size() ? scale_ : 1.0f);
      dy = dx;
    }
  }

 private:
  const std::vector<ReduceStage> stages_;
  const std::vector<size_t> between_;
  const float scale_;
};

// Of a plain tensor, the last axes first. Neighbouring axes are one.
std::vector<ReduceStage> PlainStages(const Reduce& op, std::vector<int64_t> shape) {
  std::vector<ReduceStage> stages;
  for (size_t last = op.axes.size(); last > 0;) {
    size_t first = last;  // axes first+1 .. last (counted from 1) are neighbours
    do {
      --first;
    } while (first > 0 && op.axes[first - 1] + 1 == op.axes[first]);
    ReduceStage stage;
    const size_t begin = static_cast<size_t>(op.axes[first]);
    const size_t end = static_cast<size_t>(op.axes[last - 1]) + 1;
    for (size_t i = 0; i < begin; ++i) stage.outer *= shape[i];
    for (size_t i = begin; i < end; ++i) stage.reduced *= shape[i];
    for (size_t i = end; i < shape.size(); ++i) stage.inner *= shape[i];
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(begin),
                shape.begin() + static_cast<std::ptrdiff_t>(end));
    stages.push_back(stage);
    last = first;
  }
  return stages;
}

// Over the places of an image that is in another layout: nothing to reorder, if its channels fill
// their blocks; the output is plain.
std::vector<ReduceStage> PlaceStages(const Reduce& op, const Format& x) {
  const std::vector<int64_t>& shape = x.spec.shape;
  if (x.plain() || shape.size() != 4 || op.axes != std::vector<int64_t>{2, 3}) return {};
  const DnnlDesc desc = DescOf(x);
  const auto is = [&](DnnlTag tag) {
    return desc == DnnlDesc(shape, dnnl::memory::data_type::f32, tag);
  };
  const int64_t places = shape[2] * shape[3];
  if (is(DnnlTag::acdb)) return {{shape[0], places, shape[1]}};
  if (is(DnnlTag::aBcd16b) && shape[1] % 16 == 0) return {{shape[0] * shape[1] / 16, places, 16}};
  if (is(DnnlTag::aBcd8b) && shape[1] % 8 == 0) return {{shape[0] * shape[1] / 8, places, 8}};
  return {};
}

std::unique_ptr<Kernel> MakeReduceKernel(const Reduce& op, const KernelRequest& request,
                                         const CpuContext& context,
                                         std::vector<ReduceStage> stages) {
  Arena scratch;
  std::vector<size_t> between;
  int64_t count = 1;
  for (const ReduceStage& stage : stages) {
    count *= stage.reduced;
    const int64_t floats = between.size() + 1 < stages.size() ? stage.outer * stage.inner : 0;
    between.push_back(scratch.Take(static_cast<size_t>(floats) * sizeof(float)));
  }
  const float scale = op.kind == ReduceKind::kMean ? 1.0f / static_cast<float>(count) : 1.0f;
  KernelPlan plan = {.outputs = {PlainFormat(request.outputs[0])},
                     .forward_scratch_bytes = scratch.bytes(),
                     .backward_scratch_bytes = scratch.bytes(),
                     .backward_reads_input = {false},
                     .backward_reads_output = {false}};
  return std::make_unique<ReduceKernel>(std::move(plan), context, std::move(stages),
                                        std::move(between), scale);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeReduce(const Reduce& op, const KernelRequest& request,
                                                   const CpuContext& context) {
  std::vector<ReduceStage> places = PlaceStages(op, request.inputs[0]);
  if (!places.empty()) return MakeReduceKernel(op, request, context, std::move(places));
  return WithPlainInputs(
      request, context, [&](const KernelRequest& plain) -> absl::StatusOr<std::unique_ptr<Kernel>> {
        return MakeReduceKernel(op, plain, context, PlainStages(op, plain.inputs[0].spec.shape));
      });
}

}  // namespace soapstone::compute
