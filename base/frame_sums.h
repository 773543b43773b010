// Checksums of a message's frames, for those who compare what was sent with what was written. Not
// cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace soapstone {

// A checksum of bytes, eight at a time.
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

// Of several parts, from theirs in order; never 0, which stands for none. The parts of a reply are
// its frames of tensors, then the single rows of its frames of rows: rows are written one by one.
class FrameSums {
 public:
  void Add(uint64_t sum) { all_ = (all_ ^ sum) * 0xC2B2AE3D27D4EB4Fu + (all_ >> 31); }
  uint64_t value() const { return all_ == 0 ? 1 : all_; }

 private:
  uint64_t all_ = 0x13198A2E03707344u;
};

}  // namespace soapstone
