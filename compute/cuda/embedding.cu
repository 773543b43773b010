// Kernels of embedding. Its gradient gathers: each row is written by one block.
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"

namespace soapstone::compute {
namespace {

struct EmbeddingElement {
  EmbeddingPass p;
  const float* weight;
  float* y;
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t place = Quotient(i, p.dim);
    const int64_t id = p.ids[place];
    y[i] = id >= 0 && id < p.rows ? weight[id * p.dim + (i - place * p.dim)] : 0.0f;
  }
};

constexpr int kIdsAtOnce = 1024;

// Place r, if it is the first of its id: the sum over all places of that id, in their order. Ids
// are compared kIdsAtOnce at a time by the block's threads, which mark the places of equal ones.
struct EmbeddingGradientRow {
  EmbeddingPass p;
  const float* dy;
  float* dweight;
  SOAP_DEVICE void operator()(int64_t r) const {
    SOAP_SHARED uint32_t equal[kIdsAtOnce / 32];
    const int64_t id = p.ids[r];
    if (id < 0 || id >= p.rows) return;
    for (int64_t begin = 0; begin < p.places; begin += kIdsAtOnce) {
      Barrier();  // the marks before have been read
      for (int w = Thread(); w < kIdsAtOnce / 32; w += kBlockThreads) equal[w] = 0;
      Barrier();
      for (int k = Thread(); k < kIdsAtOnce && begin + k < p.places; k += kBlockThreads) {
        if (p.ids[begin + k] == id) SetBits(&equal[k / 32], 1u << (k % 32));
      }
      Barrier();
      for (int w = 0; w < kIdsAtOnce / 32; ++w) {
        for (uint32_t bits = equal[w]; bits != 0; bits &= bits - 1) {
          const int64_t place = begin + 32 * w + FirstBit(bits);
          if (place < r) return;  // all threads: the sum is another block's
          for (int64_t i = Thread(); i < p.dim; i += kBlockThreads) {
            const float before = place == r ? 0.0f : dweight[id * p.dim + i];
            dweight[id * p.dim + i] = before + dy[place * p.dim + i];
          }
        }
      }
    }
  }
};

}  // namespace

void EmbeddingForward(cudaStream_t stream, const EmbeddingPass& pass, const float* weight,
                      float* y) {
  ForEach(stream, pass.places * pass.dim, EmbeddingElement{pass, weight, y});
}
void EmbeddingBackward(cudaStream_t stream, const EmbeddingPass& pass, const float* dy,
                       float* dweight) {
  // Rows without a place are 0; all bits 0 are the float 0.
  const size_t bytes = static_cast<size_t>(pass.rows * pass.dim) * sizeof(float);
  CheckLaunch("cudaMemsetAsync", cudaMemsetAsync(dweight, 0, bytes, stream));
  ForEachRow(stream, pass.places, EmbeddingGradientRow{pass, dy, dweight});
}

}  // namespace soapstone::compute
