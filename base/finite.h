// Whether floats are finite: neither NaN nor infinite. Who asks: whoever makes or takes a gradient
// or new values (worker/device/executor.h, compute/optimizer.h, server/store/tensor_store.h), in a
// pass that reads them anyway or right behind it. Knows nothing of tensors.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "base/vectors.h"

namespace soapstone {

// The greatest magnitude of the values, as its bits, which are in the order of magnitudes with
// infinity and then NaN above all; 0 of none. A greatest of integers has no order of evaluation, so
// that the loop is done a vector at a time.
SOAPSTONE_INTO_CALLER int32_t MagnitudeBits(const float* values, size_t n) {
  int32_t most = 0;
  for (size_t i = 0; i < n; ++i) {
    most = std::max(most, std::bit_cast<int32_t>(values[i]) & 0x7fffffff);
  }
  return most;
}
// Whether the values that MagnitudeBits is of are all finite.
SOAPSTONE_INTO_CALLER bool AreFinite(int32_t magnitude_bits) { return magnitude_bits < 0x7f800000; }

bool AllFinite(absl::Span<const float> values);

// The greatest magnitude, infinity where a value is NaN; 0 of none.
float GreatestMagnitude(absl::Span<const float> values);

}  // namespace soapstone
