// Kernels of softmax and cross-entropy.
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"

namespace soapstone::compute {
namespace {

// One place of one sample. A place without a label has neither loss nor hit.
struct LossRow {
  LossPass p;
  SOAP_DEVICE void operator()(int64_t row) const {
    const float* x = p.logits + row * p.classes;
    float largest = -INFINITY;
    for (int64_t i = Thread(); i < p.classes; i += kBlockThreads) largest = fmaxf(largest, x[i]);
    largest = BlockReduce(largest, LargestOf());
    int first = 0x7fffffff;
    float sum = 0;
    for (int64_t i = Thread(); i < p.classes; i += kBlockThreads) {
      if (x[i] == largest && i < first) first = static_cast<int>(i);
      sum += expf(x[i] - largest);
    }
    first = BlockReduce(first, FirstOf());
    sum = BlockReduce(sum, SumOf());
    if (Thread() != 0) return;
    const float log_sum = largest + logf(sum);
    const int32_t label = p.labels[row];
    const bool counts = label >= 0 && label < p.classes;
    p.log_sum[row] = log_sum;
    p.row_loss[row] = counts ? log_sum - x[label] : 0.0f;
    p.row_hit[row] = counts && first == label ? 1.0f : 0.0f;
  }
};

struct LossSample {
  LossPass p;
  float* loss;
  float* hits;
  SOAP_DEVICE void operator()(int64_t n) const {
    float sum = 0, hit = 0, count = 0;
    for (int64_t i = n * p.places; i < (n + 1) * p.places; ++i) {
      sum += p.row_loss[i];
      hit += p.row_hit[i];
      count += p.labels[i] >= 0 ? 1.0f : 0.0f;
    }
    const float inverse = count > 0 ? 1.0f / count : 0.0f;
    p.inverse[n] = inverse;
    loss[n] = sum * inverse;
    hits[n] = hit * inverse;
  }
};

struct LossGradientElement {
  LossPass p;
  float* dlogits;
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t row = Quotient(i, p.classes);
    const int32_t label = p.labels[row];
    if (label < 0) {
      dlogits[i] = 0;
      return;
    }
    const float probability = expf(p.logits[i] - p.log_sum[row]);
    const float target = i - row * p.classes == label ? 1.0f : 0.0f;
    dlogits[i] = (probability - target) * p.inverse[Quotient(row, p.places)];
  }
};

}  // namespace

void LossForward(cudaStream_t stream, const LossPass& pass, float* loss, float* hits) {
  ForEachRow(stream, pass.samples * pass.places, LossRow{pass});
  ForEach(stream, pass.samples, LossSample{pass, loss, hits});
}

void LossBackward(cudaStream_t stream, const LossPass& pass, float* dlogits) {
  ForEach(stream, pass.samples * pass.places * pass.classes, LossGradientElement{pass, dlogits});
}

}  // namespace soapstone::compute
