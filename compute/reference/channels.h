// The elements of each channel of a tensor [N, C, ..].
#pragma once

#include <cstdint>

#include "compute/op.h"

namespace soapstone::compute {

struct Channels {
  explicit Channels(const TensorSpec& x)
      : samples(x.shape[0]), count(x.shape[1]), places(x.elements() / (samples * count)) {}

  // body(index) for each element of channel c
  template <class Body>
  void ForEach(int64_t c, const Body& body) const {
    for (int64_t n = 0; n < samples; ++n) {
      for (int64_t p = 0; p < places; ++p) body((n * count + c) * places + p);
    }
  }
  double elements() const { return static_cast<double>(samples * places); }

  int64_t samples, count, places;
};

}  // namespace soapstone::compute
