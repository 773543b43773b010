// Kernels of the products of all pairs of vectors.
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"

namespace soapstone::compute {
namespace {

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

void PairwiseForward(cudaStream_t stream, const PairwisePass& pass, const float* x, float* y) {
  ForEach(stream, pass.samples * pass.vectors * pass.vectors, PairwiseElement{pass, x, y});
}
void PairwiseBackward(cudaStream_t stream, const PairwisePass& pass, const float* x,
                      const float* dy, float* dx) {
  ForEach(stream, pass.samples * pass.vectors * pass.dim, PairwiseGradientElement{pass, x, dy, dx});
}

}  // namespace soapstone::compute
