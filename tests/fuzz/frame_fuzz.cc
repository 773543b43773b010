// Frames as a peer sends them (wire/frame.h, wire/compact_header.h).
// Input: flags, the number of payload frames, the size of each, and frame 0. Bit 0: it came over a
// link within the machine. Bit 1: what follows is frame 0 without its prefix, which is made here,
// so that a mutation need not guess a checksum.
#include <zlib.h>

#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "wire/compact_header.h"
#include "wire/frame.h"

namespace soapstone::fuzz {
namespace {

std::string WithPrefix(std::string_view header) {
  const auto bytes = static_cast<uint32_t>(header.size());
  const auto crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(header.data()), static_cast<uInt>(header.size())));
  std::string frame(wire::kFramePrefixBytes, '\0');
  std::memcpy(&frame[0], &wire::kFrameMagic, 4);
  std::memcpy(&frame[4], &wire::kFrameVersion, 2);
  std::memcpy(&frame[8], &bytes, 4);
  std::memcpy(&frame[12], &crc, 4);
  return frame.append(header.data(), header.size());
}

void DecodeOne(FuzzInput input) {
  const auto flags = input.Take<uint8_t>();
  const size_t count = input.Take<uint8_t>() % 16;
  std::vector<size_t> sizes;
  for (size_t i = 0; i < count; ++i) sizes.push_back(input.Take<uint16_t>());
  const std::string_view rest = input.Rest();
  const std::string first = (flags & 2) != 0 ? WithPrefix(rest) : std::string(rest);

  std::vector<Buffer> frames = {Buffer::CopyOf(first)};
  for (const size_t size : sizes) frames.push_back(Buffer::CopyOf(std::string(size, 'p')));
  const bool local = (flags & 1) != 0;
  const absl::StatusOr<wire::Received> got =
      local ? wire::DecodeLocal(frames) : wire::Decode(frames);
  if (!got.ok()) return CheckError(got.status(), "");

  // What was taken can be sent on, and says the same.
  const std::string again = wire::EncodeHeader(got->message, got->sender);
  std::vector<Buffer> frames_again = frames;
  frames_again[0] = Buffer::CopyOf(again);
  const absl::StatusOr<wire::Received> twice = wire::Decode(frames_again);
  CHECK(twice.ok()) << twice.status();
  CHECK(wire::EncodeHeader(twice->message, twice->sender) == again);
  std::string compact;
  wire::EncodeLocalHeader(got->message, got->sender, &compact);
  frames_again[0] = Buffer::CopyOf(compact);
  const absl::StatusOr<wire::Received> within = wire::DecodeLocal(frames_again);
  CHECK(within.ok()) << within.status();
  CHECK(wire::EncodeHeader(within->message, within->sender) == again);
  CHECK(!wire::ToString(got->message).empty());
}

}  // namespace
}  // namespace soapstone::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  soapstone::fuzz::DecodeOne({data, size});
  return 0;
}
