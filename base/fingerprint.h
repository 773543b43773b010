// A 128-bit fingerprint of a state, for the exhaustive checker's set of visited states and for
// comparing runs. Not cryptographic. Values that take part offer
// `void AddTo(Fingerprint* f) const`.
#pragma once

#include <concepts>
#include <cstdint>
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

}  // namespace soapstone
