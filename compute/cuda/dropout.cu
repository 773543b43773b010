// Dropout on the device, in words of the host's generator.
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"
#include "compute/cuda/philox.h"

namespace soapstone::compute {
namespace {

// Four elements of one sample: the words of one block.
struct DropoutQuad {
  DropoutPass p;
  int64_t quads;  // of a sample
  const float* x;
  float* y;
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t sample = Quotient(i, quads);
    const int64_t quad = i - sample * quads;
    const uint64_t step = p.step + (p.keys != nullptr ? p.keys[0] : 0);
    const uint64_t first = p.first_sample + (p.keys != nullptr ? p.keys[1] : 0);
    const uint64_t top = PhiloxTop(p.use, (step << 16) ^ p.op_index);
    const uint64_t index = (first + static_cast<uint64_t>(sample)) * static_cast<uint64_t>(quads) +
                           static_cast<uint64_t>(quad);
    const PhiloxWords words = PhiloxBlock(p.seed, top, index);
    for (int64_t k = 0; k < 4 && 4 * quad + k < p.elements; ++k) {
      const int64_t at = sample * p.elements + 4 * quad + k;
      y[at] = words.word[k] >= p.threshold ? x[at] * p.scale : 0.0f;
    }
  }
};

}  // namespace

void DropoutElements(cudaStream_t stream, const DropoutPass& pass, const float* x, float* y) {
  const int64_t quads = (pass.elements + 3) / 4;
  ForEach(stream, pass.samples * quads, DropoutQuad{pass, quads, x, y});
}

}  // namespace soapstone::compute
