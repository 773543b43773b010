// A RandomSource is a stream of random numbers for searches, and a function of (seed, stream)
// alone. Searchers draw one number after the other from it; what is drawn by index uses
// base/random.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"

namespace soapstone::planner {

// Invariant: the n-th word is the n-th of the counted stream; they are made a few blocks at a time.
// Not to be shared between threads.
class RandomSource {
 public:
  RandomSource(uint64_t seed, uint64_t stream) : random_(seed, RandomUse::kPlan, stream) {}
  uint32_t Below(uint32_t bound) {  // REQUIRES bound > 0; bias below bound/2^32
    return static_cast<uint32_t>((uint64_t{Word()} * bound) >> 32);
  }
  double Uniform() {  // (0, 1]
    return (static_cast<double>(Word()) + 1) / 4294967296.0;
  }

 private:
  static constexpr size_t kBlocks = 64;
  uint32_t Word() {
    if (at_ == words_.size()) {
      words_.resize(4 * kBlocks);
      random_.Blocks(next_, kBlocks, words_.data());
      next_ += kBlocks;
      at_ = 0;
    }
    return words_[at_++];
  }
  CounterRandom random_;
  uint64_t next_ = 0;
  std::vector<uint32_t> words_;
  size_t at_ = 0;
};

}  // namespace soapstone::planner
