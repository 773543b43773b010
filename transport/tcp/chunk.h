// ChunkHead: what begins each chunk of a stream. StreamChannel writes chunks and ChunkReader reads
// them; docs/wire.md has the bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace soapstone::transport {

// Little-endian, as every machine that this is built for.
struct ChunkHead {
  uint32_t magic;
  uint32_t bytes;         // of payload in the chunk
  uint32_t header_bytes;  // of the message that begins here
  uint32_t frames;        // of its payload
};
static_assert(std::endian::native == std::endian::little);

inline constexpr uint32_t kBeginMagic = 0x47454253;  // "SBEG"
inline constexpr uint32_t kMoreMagic = 0x524F4D53;   // "SMOR"
// Notes: chunks of no message, whose number is in the place of header_bytes and frames.
inline constexpr uint32_t kAckMagic = 0x4B434153;  // "SACK"
inline constexpr uint32_t kAskMagic = 0x4B534153;  // "SASK"
inline constexpr uint32_t kByeMagic = 0x45594253;  // "SBYE"

// Of messages that are begun and not finished, on one connection.
inline constexpr size_t kBegunMax = 8;

// Frames, and headers, begin at multiples of 8 bytes of a chunk.
constexpr uint64_t RoundedUpBy8(uint64_t bytes) { return (bytes + 7) & ~uint64_t{7}; }

}  // namespace soapstone::transport
