#include "base/finite.h"

#include <limits>

namespace soapstone {
namespace {

constexpr size_t kLook = size_t{1} << 14;  // values between looks at what was found

}  // namespace

SOAPSTONE_EACH_VECTOR_WIDTH
bool AllFinite(absl::Span<const float> values) {
  for (size_t at = 0; at < values.size(); at += kLook) {
    const size_t n = std::min(kLook, values.size() - at);
    if (!AreFinite(MagnitudeBits(values.data() + at, n))) return false;
  }
  return true;
}

SOAPSTONE_EACH_VECTOR_WIDTH
float GreatestMagnitude(absl::Span<const float> values) {
  const int32_t bits = MagnitudeBits(values.data(), values.size());
  return AreFinite(bits) ? std::bit_cast<float>(bits) : std::numeric_limits<float>::infinity();
}

}  // namespace soapstone
