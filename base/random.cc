#include "base/random.h"

#include <algorithm>
#include <cmath>

#include "base/vectors.h"

namespace soapstone {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53u;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kWeyl0 = 0x9E3779B9u;
constexpr uint32_t kWeyl1 = 0xBB67AE85u;
constexpr double kTwoPi = 6.283185307179586476925286766559;

// A bijection of 64 bits (splitmix64's finaliser): spreads (use, stream) over the counter's top.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Blocks first .. first + kLanes − 1 of the counter whose upper half is `top`.
constexpr size_t kLanes = 32;
SOAPSTONE_EACH_VECTOR_WIDTH void LanesOfBlocks(uint64_t first, uint64_t top, uint64_t seed,
                                               uint32_t* words) {
  uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (size_t l = 0; l < kLanes; ++l) {
    c0[l] = static_cast<uint32_t>(first + l);
    c1[l] = static_cast<uint32_t>((first + l) >> 32);
    c2[l] = static_cast<uint32_t>(top);
    c3[l] = static_cast<uint32_t>(top >> 32);
  }
  uint32_t k0 = static_cast<uint32_t>(seed);
  uint32_t k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (size_t l = 0; l < kLanes; ++l) {
      const uint64_t p0 = static_cast<uint64_t>(kMultiplier0) * c0[l];
      const uint64_t p1 = static_cast<uint64_t>(kMultiplier1) * c2[l];
      c0[l] = static_cast<uint32_t>(p1 >> 32) ^ c1[l] ^ k0;
      c1[l] = static_cast<uint32_t>(p1);
      c2[l] = static_cast<uint32_t>(p0 >> 32) ^ c3[l] ^ k1;
      c3[l] = static_cast<uint32_t>(p0);
    }
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  for (size_t l = 0; l < kLanes; ++l) {
    words[4 * l] = c0[l];
    words[4 * l + 1] = c1[l];
    words[4 * l + 2] = c2[l];
    words[4 * l + 3] = c3[l];
  }
}

}  // namespace

std::array<uint32_t, 4> CounterRandom::Block(uint64_t index) const {
  const uint64_t top = Mix(Mix(static_cast<uint64_t>(use_)) ^ stream_);
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                               static_cast<uint32_t>(top), static_cast<uint32_t>(top >> 32)};
  uint32_t k0 = static_cast<uint32_t>(seed_);
  uint32_t k1 = static_cast<uint32_t>(seed_ >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMultiplier0) * c[0];
    const uint64_t p1 = static_cast<uint64_t>(kMultiplier1) * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

void CounterRandom::Blocks(uint64_t first, size_t count, uint32_t* words) const {
  const uint64_t top = Mix(Mix(static_cast<uint64_t>(use_)) ^ stream_);
  size_t done = 0;
  for (; done + kLanes <= count; done += kLanes) {
    LanesOfBlocks(first + done, top, seed_, words + 4 * done);
  }
  for (; done < count; ++done) {
    const std::array<uint32_t, 4> block = Block(first + done);
    std::copy(block.begin(), block.end(), words + 4 * done);
  }
}

uint64_t CounterRandom::Bits(uint64_t index) const {
  const auto block = Block(index);
  return (static_cast<uint64_t>(block[1]) << 32) | block[0];
}

double CounterRandom::Uniform(uint64_t index) const {
  return static_cast<double>(Bits(index) >> 11) * 0x1.0p-53;
}

uint64_t CounterRandom::Below(uint64_t index, uint64_t bound) const {
  // The high word of a 64x64-bit product; the bias is below bound / 2^64.
  return static_cast<uint64_t>((static_cast<unsigned __int128>(Bits(index)) * bound) >> 64);
}

double CounterRandom::Normal(uint64_t index) const {
  const auto block = Block(index);
  const uint64_t a = (static_cast<uint64_t>(block[1]) << 32) | block[0];
  const uint64_t b = (static_cast<uint64_t>(block[3]) << 32) | block[2];
  const double u1 = (static_cast<double>(a >> 11) + 1.0) * 0x1.0p-53;  // (0, 1]
  const double u2 = static_cast<double>(b >> 11) * 0x1.0p-53;
  return std::sqrt(-2.0 * std::log(u1)) * std::cos(kTwoPi * u2);
}

}  // namespace soapstone
