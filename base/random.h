// Counter-based random numbers: a draw is a function of (seed, stream, index) and nothing else, so
// it does not depend on the order of draws, on threads, or on how work is split.
// The mixing function is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011). The standard library's distributions are not used: their results differ by vendor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace soapstone {

// What a stream of numbers is for: part of the key, so that two purposes never share numbers.
enum class RandomUse : uint32_t {
  kInit = 1,
  kPermutation = 2,
  kSplit = 3,
  kStraggler = 4,
  kFault = 5,
  kDelay = 6,
  kSession = 7,
  kBarrier = 8,
  kPartner = 9,
  kRowInit = 10,
  kRowIndex = 11,
  kNegatives = 12,
  kAugmentation = 13,
  kSynthetic = 14,
  kDropout = 15,
  kPlan = 16,
  kPlanJitter = 17,
  kSampledToken = 18,
  kBootstrap = 20,
  kTest = 100,
};

class CounterRandom {
 public:
  CounterRandom(uint64_t seed, RandomUse use, uint64_t stream = 0)
      : seed_(seed), use_(use), stream_(stream) {}

  // Draws at `index`: 128 random bits, one word of them, a real in [0, 1), an integer in
  // [0, bound) (REQUIRES bound > 0), a standard normal (Box-Muller).
  std::array<uint32_t, 4> Block(uint64_t index) const;
  uint64_t Bits(uint64_t index) const;
  double Uniform(uint64_t index) const;
  uint64_t Below(uint64_t index, uint64_t bound) const;
  double Normal(uint64_t index) const;

  // words [4·count]: Block(first), Block(first + 1), .., many at once.
  void Blocks(uint64_t first, size_t count, uint32_t* words) const;

 private:
  uint64_t seed_;
  RandomUse use_;
  uint64_t stream_;
};

}  // namespace soapstone
