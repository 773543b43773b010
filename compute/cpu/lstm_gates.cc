#include "compute/cpu/lstm_gates.h"

#include "base/vectors.h"
#include "compute/cpu/vector_math.h"

namespace soapstone::compute {
namespace {

// c = f·c_before + i·g; h = o·tanh(c)
template <bool kRecurrent, bool kState>
SOAPSTONE_INTO_CALLER void StepOfSample(const LstmStep& s, int64_t n) {
  const int64_t hidden = s.hidden;
  float* gi = s.gates.row(n);
  float* gf = gi + hidden;
  float* gg = gf + hidden;
  float* go = gg + hidden;
  const float* b = s.bias;
  const float* r = kRecurrent ? s.recurrent + n * 4 * hidden : nullptr;
  const float* c_before = kState ? s.c_before.row(n) : nullptr;
  float* c = s.c.row(n);
  float* y = s.y.row(n);
  float* h = s.h + n * hidden;
  SOAPSTONE_ELEMENTWISE
  for (int64_t j = 0; j < hidden; ++j) {
    float ai = gi[j] + b[j];
    float af = gf[j] + b[hidden + j];
    float ag = gg[j] + b[2 * hidden + j];
    float ao = go[j] + b[3 * hidden + j];
    if (kRecurrent) {
      ai += r[j];
      af += r[hidden + j];
      ag += r[2 * hidden + j];
      ao += r[3 * hidden + j];
    }
    const float i = VectorSigmoid(ai);
    const float f = VectorSigmoid(af);
    const float g = VectorTanh(ag);
    const float o = VectorSigmoid(ao);
    const float c_now = kState ? f * c_before[j] + i * g : i * g;
    const float h_now = o * VectorTanh(c_now);
    gi[j] = i;
    gf[j] = f;
    gg[j] = g;
    go[j] = o;
    c[j] = c_now;
    y[j] = h_now;
    h[j] = h_now;
  }
}

template <bool kState>
SOAPSTONE_INTO_CALLER void GradientOfSample(const LstmStepGradient& s, int64_t n) {
  const int64_t hidden = s.hidden;
  float* gi = s.gates.row(n);
  float* gf = gi + hidden;
  float* gg = gf + hidden;
  float* go = gg + hidden;
  float* out = s.gate_grads + n * 4 * hidden;
  const float* c_before = kState ? s.c_before.row(n) : nullptr;
  const float* c = s.c.row(n);
  const float* dy = s.dy.row(n);
  const float* dh = s.dh + n * hidden;
  float* dc = s.dc + n * hidden;
  SOAPSTONE_ELEMENTWISE
  for (int64_t j = 0; j < hidden; ++j) {
    const float i = gi[j];
    const float f = gf[j];
    const float g = gg[j];
    const float o = go[j];
    const float dh_now = dy[j] + dh[j];
    const float t = VectorTanh(c[j]);
    const float dc_now = dc[j] + dh_now * o * (1.0f - t * t);
    const float di = dc_now * g * (i * (1.0f - i));
    const float df = kState ? dc_now * c_before[j] * (f * (1.0f - f)) : 0.0f;
    const float dg = dc_now * i * (1.0f - g * g);
    const float d_o = dh_now * t * (o * (1.0f - o));
    gi[j] = di;
    gf[j] = df;
    gg[j] = dg;
    go[j] = d_o;
    out[j] = di;
    out[hidden + j] = df;
    out[2 * hidden + j] = dg;
    out[3 * hidden + j] = d_o;
    dc[j] = dc_now * f;
  }
}

}  // namespace

SOAPSTONE_EACH_VECTOR_WIDTH void RunLstmStep(const LstmStep& step, int64_t begin, int64_t end) {
  for (int64_t n = begin; n < end; ++n) {
    if (step.recurrent == nullptr) {
      StepOfSample<false, false>(step, n);  // the first step, from nothing
    } else {
      StepOfSample<true, true>(step, n);
    }
  }
}

SOAPSTONE_EACH_VECTOR_WIDTH void RunLstmStepGradient(const LstmStepGradient& step, int64_t begin,
                                                     int64_t end) {
  for (int64_t n = begin; n < end; ++n) {
    if (step.c_before.data == nullptr) {
      GradientOfSample<false>(step, n);
    } else {
      GradientOfSample<true>(step, n);
    }
  }
}

}  // namespace soapstone::compute
