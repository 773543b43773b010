// A 128-bit fingerprint of a state, for the exhaustive checker's set of visited states and for
// comparing runs. Not cryptographic. Values that take part offer
// `void AddTo(Fingerprint* f) const`.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

namespace soapstone {

class Fingerprint {
 public:
  void AddWord(uint64_t x) {
    a_ = (a_ ^ x) * 0x9E3779B97F4A7C15u;
    a_ ^= a_ >> 29;
    b_ = (b_ + x) * 0xC2B2AE3D27D4EB4Fu;
    b_ ^= b_ >> 31;
  }
  template <typename T>
  requires(std::integral<T> || std::is_enum_v<T>) void Add(T x) {
    AddWord(static_cast<uint64_t>(x));
  }
  void Add(std::string_view bytes) {
    AddWord(static_cast<uint64_t>(bytes.size()));
    for (char c : bytes) AddWord(static_cast<uint64_t>(static_cast<unsigned char>(c)));
  }

  std::pair<uint64_t, uint64_t> value() const { return {a_ ^ (b_ >> 17), b_ ^ (a_ << 13)}; }

 private:
  uint64_t a_ = 0x243F6A8885A308D3u;
  uint64_t b_ = 0x13198A2E03707344u;
};

// A checksum of bytes, eight at a time. Not cryptographic.
inline uint64_t ContentSum(const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  uint64_t sum = 0x243F6A8885A308D3u ^ size;
  for (; size > 0; at += 8) {
    uint64_t word = 0;
    const size_t count = size < 8 ? size : 8;
    std::memcpy(&word, at, count);
    sum = (sum ^ word) * 0x9E3779B97F4A7C15u;
    sum ^= sum >> 29;
    size -= count;
  }
  return sum;
}

// Of several frames, from theirs in order; never 0, which stands for none.
class FrameSums {
 public:
  void Add(uint64_t sum) { all_ = (all_ ^ sum) * 0xC2B2AE3D27D4EB4Fu + (all_ >> 31); }
  uint64_t value() const { return all_ == 0 ? 1 : all_; }

 private:
  uint64_t all_ = 0x13198A2E03707344u;
};

}  // namespace soapstone
