// The element-wise half of an LSTM: from sums of products to gates and states, and back. One time
// step of some samples at a time.
#pragma once

#include <cstdint>

namespace soapstone::compute {

// A matrix with a row for each sample, rows `stride` elements apart.
template <typename T>
struct SampleRows {
  T* data = nullptr;
  int64_t stride = 0;
  T* row(int64_t sample) const { return data + sample * stride; }
};

// gates [4H] by sample: X·W_ihᵀ before, i, f, g, o after (ready for LstmStepGradient).
struct LstmStep {
  int64_t hidden = 0;
  const float* bias = nullptr;       // [4H]
  const float* recurrent = nullptr;  // h_{t−1}·W_hhᵀ [N, 4H]; null: zero
  SampleRows<float> gates;
  SampleRows<const float> c_before;  // null: zero
  SampleRows<float> c;               // may be c_before
  SampleRows<float> y;
  float* h = nullptr;  // [N, H], the same as y
};
void RunLstmStep(const LstmStep& step, int64_t begin, int64_t end);

// gates: i, f, g, o before, the gradients of the sums that they are functions of after.
struct LstmStepGradient {
  int64_t hidden = 0;
  SampleRows<float> gates;
  float* gate_grads = nullptr;       // [N, 4H], the same as gates after
  SampleRows<const float> c_before;  // null: zero
  SampleRows<const float> c;
  SampleRows<const float> dy;
  const float* dh = nullptr;  // [N, H], of h_t but for dy
  float* dc = nullptr;        // [N, H], of c_t before, of c_{t−1} after
};
void RunLstmStepGradient(const LstmStepGradient& step, int64_t begin, int64_t end);

}  // namespace soapstone::compute
