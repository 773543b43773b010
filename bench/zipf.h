// Zipf: ranks drawn with probability proportional to 1/(rank + 1)^exponent: how often the rows of
// an embedding are used. By rejection and inversion (Hörmann and Derflinger, "Rejection-inversion
// to generate variates from monotone discrete distributions", ACM TOMACS 1996): no tables, so that
// ten million ranks cost as much as ten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"

namespace soapstone::bench {

class Zipf {
 public:
  // Ranks [0, count). REQUIRES: count > 0, exponent > 0.
  Zipf(uint64_t count, double exponent, uint64_t seed);

  // The next draw.
  uint64_t Draw();

  // The next `size` different keys, ascending: a rank's key is one of [0, count), and no neighbour
  // of the next rank's. REQUIRES: size is far below count.
  std::vector<uint64_t> Batch(size_t size);
  uint64_t KeyOf(uint64_t rank) const;

 private:
  double H(double x) const;
  double HInverse(double u) const;

  uint64_t count_;
  double exponent_;
  uint64_t step_;  // between the keys of neighbouring ranks; prime to count
  CounterRandom random_;
  uint64_t drawn_ = 0;
  double h_first_, h_last_;  // u is uniform between them
  double sure_;              // rounding up by no more than this needs no test
};

}  // namespace soapstone::bench
