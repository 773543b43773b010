// Kernels of additive attention's scores; matrix products around them are cuBLAS's.
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"

namespace soapstone::compute {
namespace {

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

}  // namespace

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

}  // namespace soapstone::compute
