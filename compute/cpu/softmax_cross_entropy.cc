#include "compute/cpu/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "base/vectors.h"
#include "compute/cpu/formats.h"
#include "compute/cpu/vector_math.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

// logits [samples · places, classes], labels [samples · places]
struct LossShape {
  int64_t samples = 0, places = 0, classes = 0;
  int64_t rows() const { return samples * places; }
};

// Of one row, kept for the gradient.
struct RowNorm {
  float max = 0;
  float inverse = 0;  // 1/Σ exp(x − max)
};
struct RowResult {
  float loss = 0, correct = 0;
};

struct LossTensors {
  int64_t classes = 0;
  const float* logits = nullptr;    // [rows, classes]
  const int32_t* labels = nullptr;  // [rows]
  RowNorm* norms = nullptr;         // [rows]; not written without a label
  RowResult* results = nullptr;     // [rows]
};

SOAPSTONE_EACH_VECTOR_WIDTH void LossRows(const LossTensors& t, int64_t begin, int64_t end) {
  const int64_t classes = t.classes;
  for (int64_t r = begin; r < end; ++r) {
    const int32_t label = t.labels[r];
    RowResult& result = t.results[r];
    result = {};
    if (label < 0) continue;
    const float* x = t.logits + r * classes;
    const float max = LaneMax(x, classes);
    const float sum = LaneSum(classes, [&](int64_t i) { return VectorExp(x[i] - max); });
    t.norms[r] = {max, 1.0f / sum};
    result.loss = std::log(sum) + (max - x[label]);
    // The first of equals is the label's if none before it is as large.
    result.correct = x[label] == max && std::find(x, x + label, max) == x + label ? 1.0f : 0.0f;
  }
}

// gradient = (exp(x − max)/Σ − [i = label]) · weight
SOAPSTONE_EACH_VECTOR_WIDTH void LossRowGradient(int64_t classes, const float* x, RowNorm norm,
                                                 float weight, float* gradient) {
  const float scale = norm.inverse * weight;
  SOAPSTONE_ELEMENTWISE
  for (int64_t i = 0; i < classes; ++i) gradient[i] = VectorExp(x[i] - norm.max) * scale;
}

int64_t LabelledPlaces(const LossShape& shape, int64_t sample, const int32_t* labels) {
  const int32_t* l = labels + sample * shape.places;
  return std::count_if(l, l + shape.places, [](int32_t label) { return label >= 0; });
}

class CpuSoftmaxCrossEntropy : public CpuKernel {
 public:
  struct Parts {
    KernelPlan plan;
    LossShape shape;
    PlainInput forward_logits, backward_logits;
    PlainOutput logits_grad;
    size_t results = 0;  // offset in the scratch memory
    size_t norms = 0;    // offset in what is saved, or in the scratch memory
  };
  CpuSoftmaxCrossEntropy(Parts parts, bool training, const CpuContext& context)
      : CpuKernel(parts.plan, context), p_(std::move(parts)), training_(training) {}

 protected:
  void RunForward(const ForwardArgs& a) override {
    const LossShape& s = p_.shape;
    const float* logits = p_.forward_logits.Get(a.inputs[0], a.scratch);
    const auto* labels = static_cast<const int32_t*>(a.inputs[1]);
    RowNorm* norms = At<RowNorm>(training_ ? a.saved : a.scratch, p_.norms);
    RowResult* results = At<RowResult>(a.scratch, p_.results);
    CheckLabels(labels);
    const LossTensors tensors = {s.classes, logits, labels, norms, results};
    ParallelFor(context(), s.rows(), 1,
                [&](int64_t begin, int64_t end) { LossRows(tensors, begin, end); });
    for (int64_t n = 0; n < s.samples; ++n) {
      double loss = 0, correct = 0;
      for (int64_t i = n * s.places; i < (n + 1) * s.places; ++i) {
        loss += results[i].loss;
        correct += results[i].correct;
      }
      const double places = static_cast<double>(std::max<int64_t>(LabelledPlaces(s, n, labels), 1));
      static_cast<float*>(a.outputs[0])[n] = static_cast<float>(loss / places);
      static_cast<float*>(a.outputs[1])[n] = static_cast<float>(correct / places);
    }
  }

  void RunBackward(const BackwardArgs& a) override {
    if (a.input_grads[0] == nullptr) return;
    const LossShape& s = p_.shape;
    const float* logits = p_.backward_logits.Get(a.inputs[0], a.scratch);
    const auto* labels = static_cast<const int32_t*>(a.inputs[1]);
    const RowNorm* norms = At<RowNorm>(a.saved, p_.norms);
    float* grad = p_.logits_grad.Get(a.input_grads[0], a.scratch);
    ParallelFor(context(), s.rows(), 1, [&](int64_t begin, int64_t end) {
      float weight = 0;
      for (int64_t r = begin; r < end; ++r) {
        if (r == begin || r % s.places == 0) {
          const int64_t places = LabelledPlaces(s, r / s.places, labels);
          weight = places == 0 ? 0.0f : 1.0f / static_cast<float>(places);
        }
        float* g = grad + r * s.classes;
        if (labels[r] < 0) {
          std::fill_n(g, s.classes, 0.0f);
          continue;
        }
        LossRowGradient(s.classes, logits + r * s.classes, norms[r], weight, g);
        g[labels[r]] -= weight;
      }
    });
    p_.logits_grad.Finish(a.input_grads[0], a.scratch);
  }

 private:
  void CheckLabels(const int32_t* labels) const {
    for (int64_t r = 0; r < p_.shape.rows(); ++r) {
      CHECK(labels[r] >= -1 && labels[r] < p_.shape.classes) << "label " << labels[r];
    }
  }

  Parts p_;
  const bool training_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeSoftmaxCrossEntropy(const SoftmaxCrossEntropy&,
                                                                const KernelRequest& request,
                                                                const CpuContext& context) {
  return GuardedMake(request, context, [&]() -> std::unique_ptr<Kernel> {
    const Format& logits = request.inputs[0];
    LossShape shape;
    shape.samples = logits.spec.shape.front();
    shape.classes = logits.spec.shape.back();
    const int64_t rows = request.inputs[1].spec.elements();
    shape.places = shape.samples == 0 ? 0 : rows / shape.samples;
    Arena saved, forward, backward;
    const size_t norm_bytes = static_cast<size_t>(rows) * sizeof(RowNorm);
    CpuSoftmaxCrossEntropy::Parts parts = {
        .shape = shape,
        .forward_logits = PlainInput(logits, context, &forward),
        .backward_logits = PlainInput(logits, context, &backward),
        .logits_grad = PlainOutput(logits, context, &backward),
        .results = forward.Take(static_cast<size_t>(rows) * sizeof(RowResult)),
        .norms = (request.training ? saved : forward).Take(norm_bytes)};
    for (const TensorSpec& spec : request.outputs) parts.plan.outputs.push_back(PlainFormat(spec));
    parts.plan.saved_bytes = saved.bytes();
    parts.plan.forward_scratch_bytes = forward.bytes();
    parts.plan.backward_scratch_bytes = backward.bytes();
    parts.plan.backward_reads_input = {true, true};
    parts.plan.backward_reads_output = {false, false};
    return std::make_unique<CpuSoftmaxCrossEntropy>(std::move(parts), request.training, context);
  });
}

}  // namespace soapstone::compute
