// 16-bit floating-point numbers of weight files as float: IEEE 754's binary16, and bfloat16, the
// upper half of a float. Exact.
#pragma once

#include <cstdint>
#include <cstring>

namespace soapstone::models {

inline float FloatOfBits(uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float FloatOfBfloat16(uint16_t bits) { return FloatOfBits(uint32_t{bits} << 16); }

// Sign, 5 bits of exponent with bias 15, 10 of mantissa.
inline float FloatOfHalf(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {  // mantissa · 2^−24
    const float value = static_cast<float>(mantissa) * 0x1.0p-24f;
    return sign != 0 ? -value : value;
  }
  if (exponent == 31) return FloatOfBits(sign | 0x7f800000u | mantissa << 13);
  return FloatOfBits(sign | (exponent + 112) << 23 | mantissa << 13);
}

}  // namespace soapstone::models
