// Kernels of the recurrence's cell, of additive attention and of products of pairs; matrix products
// around them are cuBLAS's.
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

// Row (n, t, s): the threads share out the features.
struct AdditiveScoreRow {
  AdditivePass p;
  float* scores;
  SOAP_DEVICE void operator()(int64_t row) const {
    const int64_t query = Quotient(row, p.keys);
    const int64_t key = Quotient(query, p.queries) * p.keys + (row - query * p.keys);
    float sum = 0;
    for (int64_t d = Thread(); d < p.dim; d += kBlockThreads) {
      sum += p.v[d] * tanhf(p.q[query * p.dim + d] + p.k[key * p.dim + d]);
    }
    sum = BlockReduce(sum, SumOf());
    if (Thread() == 0) scores[row] = sum;
  }
};

// v_d (1 − tanh²(q + k))
SOAP_DEVICE float AdditiveSlope(const AdditivePass& p, int64_t query, int64_t key, int64_t d) {
  const float e = tanhf(p.q[query * p.dim + d] + p.k[key * p.dim + d]);
  return p.v[d] * (1.0f - e * e);
}

struct AdditiveQueryElement {
  AdditivePass p;
  const float* ds;
  float* dq;
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t query = Quotient(i, p.dim);
    const int64_t d = i - query * p.dim;
    const int64_t first_key = Quotient(query, p.queries) * p.keys;
    float sum = 0;
    for (int64_t s = 0; s < p.keys; ++s) {
      sum += ds[query * p.keys + s] * AdditiveSlope(p, query, first_key + s, d);
    }
    dq[i] = sum;
  }
};

struct AdditiveKeyElement {
  AdditivePass p;
  const float* ds;
  float* dk;
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t key = Quotient(i, p.dim);
    const int64_t d = i - key * p.dim;
    const int64_t n = Quotient(key, p.keys);
    const int64_t s = key - n * p.keys;
    float sum = 0;
    for (int64_t t = 0; t < p.queries; ++t) {
      const int64_t query = n * p.queries + t;
      sum += ds[query * p.keys + s] * AdditiveSlope(p, query, key, d);
    }
    dk[i] = sum;
  }
};

struct AdditiveVectorElement {
  AdditivePass p;
  const float* ds;
  float* partial;
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t n = Quotient(i, p.dim);
    const int64_t d = i - n * p.dim;
    float sum = 0;
    for (int64_t t = 0; t < p.queries; ++t) {
      const int64_t query = n * p.queries + t;
      for (int64_t s = 0; s < p.keys; ++s) {
        const float e = tanhf(p.q[query * p.dim + d] + p.k[(n * p.keys + s) * p.dim + d]);
        sum += ds[query * p.keys + s] * e;
      }
    }
    partial[i] = sum;
  }
};

// Where x_i·x_j is in y; j < i.
SOAP_DEVICE int64_t PairAt(const PairwisePass& p, int64_t n, int64_t i, int64_t j) {
  return n * (p.vectors * (p.vectors - 1) / 2) + i * (i - 1) / 2 + j;
}

// Of each square of places (i, j) the lower triangle works.
struct PairwiseElement {
  PairwisePass p;
  const float* x;
  float* y;
  SOAP_DEVICE void operator()(int64_t at) const {
    const int64_t row = Quotient(at, p.vectors);  // (n, i)
    const int64_t j = at - row * p.vectors;
    const int64_t n = Quotient(row, p.vectors);
    const int64_t i = row - n * p.vectors;
    if (j >= i) return;
    const float* a = x + row * p.dim;
    const float* b = x + (n * p.vectors + j) * p.dim;
    float sum = 0;
    for (int64_t d = 0; d < p.dim; ++d) sum += a[d] * b[d];
    y[PairAt(p, n, i, j)] = sum;
  }
};

// dx_i = Σ_{j ≠ i} dy_ij·x_j
struct PairwiseGradientElement {
  PairwisePass p;
  const float* x;
  const float* dy;
  float* dx;
  SOAP_DEVICE void operator()(int64_t at) const {
    const int64_t row = Quotient(at, p.dim);  // (n, i)
    const int64_t d = at - row * p.dim;
    const int64_t n = Quotient(row, p.vectors);
    const int64_t i = row - n * p.vectors;
    const float* first = x + n * p.vectors * p.dim + d;
    float sum = 0;
    for (int64_t j = 0; j < i; ++j) sum += dy[PairAt(p, n, i, j)] * first[j * p.dim];
    for (int64_t j = i + 1; j < p.vectors; ++j) sum += dy[PairAt(p, n, j, i)] * first[j * p.dim];
    dx[at] = sum;
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

void AdditiveScores(cudaStream_t stream, const AdditivePass& pass, float* scores) {
  ForEachRow(stream, pass.samples * pass.queries * pass.keys, AdditiveScoreRow{pass, scores});
}
void AdditiveQueryGradient(cudaStream_t stream, const AdditivePass& pass, const float* ds,
                           float* dq) {
  ForEach(stream, pass.samples * pass.queries * pass.dim, AdditiveQueryElement{pass, ds, dq});
}
void AdditiveKeyGradient(cudaStream_t stream, const AdditivePass& pass, const float* ds,
                         float* dk) {
  ForEach(stream, pass.samples * pass.keys * pass.dim, AdditiveKeyElement{pass, ds, dk});
}
void AdditiveVectorGradient(cudaStream_t stream, const AdditivePass& pass, const float* ds,
                            float* partial) {
  ForEach(stream, pass.samples * pass.dim, AdditiveVectorElement{pass, ds, partial});
}

void PairwiseForward(cudaStream_t stream, const PairwisePass& pass, const float* x, float* y) {
  ForEach(stream, pass.samples * pass.vectors * pass.vectors, PairwiseElement{pass, x, y});
}
void PairwiseBackward(cudaStream_t stream, const PairwisePass& pass, const float* x,
                      const float* dy, float* dx) {
  ForEach(stream, pass.samples * pass.vectors * pass.dim, PairwiseGradientElement{pass, x, dy, dx});
}

}  // namespace soapstone::compute
