// Which elements dropout keeps: a function of (seed, step, operator, sample of the global batch,
// element) alone, the same on every backend and however a batch is split.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace soapstone::compute {

// Words of 32 random bits for the elements of one sample: element e has word e % 4 of
// stream.Block(DropoutBlock(sample, elements, e / 4)). It is kept if the word is >=
// Threshold(rate).
inline CounterRandom DropoutStream(uint64_t seed, uint64_t step, uint32_t op_index) {
  return CounterRandom(seed, RandomUse::kDropout, (step << 16) ^ op_index);
}
inline uint64_t DropoutBlock(uint64_t sample, int64_t elements, int64_t quad) {
  return sample * static_cast<uint64_t>((elements + 3) / 4) + static_cast<uint64_t>(quad);
}
inline uint32_t DropoutThreshold(double rate) { return static_cast<uint32_t>(rate * 4294967296.0); }

}  // namespace soapstone::compute
