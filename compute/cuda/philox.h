// CounterRandom::Block (base/random.h) for the device, which cannot run that one: the same words,
// as a test asserts. Dropout's masks depend on nothing else.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define SOAP_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define SOAP_HOST_DEVICE inline
#endif

namespace soapstone::compute {

struct PhiloxWords {
  uint32_t word[4];
};

SOAP_HOST_DEVICE uint64_t PhiloxMix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// The upper half of the counter, of (use, stream): the same for all indices.
SOAP_HOST_DEVICE uint64_t PhiloxTop(uint32_t use, uint64_t stream) {
  return PhiloxMix(PhiloxMix(use) ^ stream);
}

SOAP_HOST_DEVICE PhiloxWords PhiloxBlock(uint64_t seed, uint64_t top, uint64_t index) {
  uint32_t c0 = static_cast<uint32_t>(index), c1 = static_cast<uint32_t>(index >> 32);
  uint32_t c2 = static_cast<uint32_t>(top), c3 = static_cast<uint32_t>(top >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0;
    const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace soapstone::compute
