// Kernels of the recurrence's cell; matrix products around them are cuBLAS's.
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"

namespace soapstone::compute {
namespace {

SOAP_DEVICE float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

struct LstmCellElement {
  LstmStep s;
  SOAP_DEVICE void operator()(int64_t index) const {
    const int64_t n = Quotient(index, s.hidden);
    const int64_t j = index - n * s.hidden;
    float* gates = s.gates + n * s.gate_stride + j;
    const float i = Sigmoid(gates[0] + s.bias[j]);
    const float f = Sigmoid(gates[s.hidden] + s.bias[s.hidden + j]);
    const float g = tanhf(gates[2 * s.hidden] + s.bias[2 * s.hidden + j]);
    const float o = Sigmoid(gates[3 * s.hidden] + s.bias[3 * s.hidden + j]);
    const float before = s.c_before != nullptr ? s.c_before[n * s.c_before_stride + j] : 0.0f;
    const float c = f * before + i * g;
    gates[0] = i;
    gates[s.hidden] = f;
    gates[2 * s.hidden] = g;
    gates[3 * s.hidden] = o;
    s.c[n * s.c_stride + j] = c;
    s.h[n * s.h_stride + j] = o * tanhf(c);
  }
};

struct LstmCellGradientElement {
  LstmStepGradient s;
  SOAP_DEVICE void operator()(int64_t index) const {
    const int64_t n = Quotient(index, s.hidden);
    const int64_t j = index - n * s.hidden;
    const float* gates = s.gates + n * s.gate_stride + j;
    float* dgates = s.dgates + n * s.gate_stride + j;
    const float i = gates[0], f = gates[s.hidden], g = gates[2 * s.hidden];
    const float o = gates[3 * s.hidden];
    const float tanh_c = tanhf(s.c[n * s.c_stride + j]);
    const float before = s.c_before != nullptr ? s.c_before[n * s.c_before_stride + j] : 0.0f;
    float dh = s.dy != nullptr ? s.dy[n * s.dy_stride + j] : 0.0f;
    if (s.dh != nullptr) dh += s.dh[index];
    float dc = dh * o * (1.0f - tanh_c * tanh_c);
    if (s.dc_in != nullptr) dc += s.dc_in[index];
    dgates[0] = dc * g * i * (1.0f - i);
    dgates[s.hidden] = dc * before * f * (1.0f - f);
    dgates[2 * s.hidden] = dc * i * (1.0f - g * g);
    dgates[3 * s.hidden] = dh * tanh_c * o * (1.0f - o);
    s.dc_out[index] = dc * f;
  }
};

struct LstmShiftElement {
  LstmShift s;
  SOAP_DEVICE void operator()(int64_t index) const {
    const int64_t row = Quotient(index, s.hidden);
    const int64_t j = index - row * s.hidden;
    const int64_t n = Quotient(row, s.steps);
    const int64_t t = row - n * s.steps;
    const bool first = s.reverse ? t == s.steps - 1 : t == 0;
    const int64_t before = s.reverse ? index + s.hidden : index - s.hidden;
    const float start = s.h0 != nullptr ? s.h0[n * s.hidden + j] : 0.0f;
    s.before[index] = first ? start : s.y[before];
  }
};

}  // namespace

void LstmCellForward(cudaStream_t stream, const LstmStep& step) {
  ForEach(stream, step.samples * step.hidden, LstmCellElement{step});
}
void LstmCellBackward(cudaStream_t stream, const LstmStepGradient& g) {
  ForEach(stream, g.samples * g.hidden, LstmCellGradientElement{g});
}
void LstmShiftStates(cudaStream_t stream, const LstmShift& shift) {
  ForEach(stream, shift.samples * shift.steps * shift.hidden, LstmShiftElement{shift});
}

}  // namespace soapstone::compute
