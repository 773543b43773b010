#include "base/plain_text.h"

#include <cstddef>
#include <cstdint>

namespace soapstone {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: it is none
};

// The first of a text that is not empty, by RFC 3629: no longer form than needed, no half of a
// pair.
Character FirstOf(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  size_t bytes = 0;
  uint32_t least = 0;
  uint32_t code = 0;
  if (byte(0) >> 5 == 0x6) {
    bytes = 2, least = 0x80, code = byte(0) & 0x1f;
  } else if (byte(0) >> 4 == 0xe) {
    bytes = 3, least = 0x800, code = byte(0) & 0xf;
  } else if (byte(0) >> 3 == 0x1e) {
    bytes = 4, least = 0x10000, code = byte(0) & 0x7;
  }
  if (bytes == 0 || text.size() < bytes) return {};
  for (size_t i = 1; i < bytes; ++i) {
    if (byte(i) >> 6 != 0x2) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool half = code >= 0xd800 && code <= 0xdfff;
  if (code < least || code > 0x10ffff || half) return {};
  return {code, bytes};
}

bool IsPlain(uint32_t code) {
  if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) return false;
  if (code == 0x2028 || code == 0x2029) return false;
  const bool turns = code == 0x61c || code == 0x200e || code == 0x200f ||
                     (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x206f) ||
                     (code >= 0xfff9 && code <= 0xfffb);
  return !turns;
}

}  // namespace

std::string PlainText(absl::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    const Character first = FirstOf(text);
    const size_t bytes = first.bytes == 0 ? 1 : first.bytes;
    if (first.bytes > 0 && IsPlain(first.code)) {
      plain.append(text.data(), bytes);
    } else {
      plain.push_back('?');
    }
    text.remove_prefix(bytes);
  }
  return plain;
}

std::string PlainLines(absl::string_view text) {
  std::string plain;
  while (true) {
    const size_t end = text.find('\n');
    plain += PlainText(text.substr(0, end));
    if (end == text.npos) return plain;
    plain.push_back('\n');
    text.remove_prefix(end + 1);
  }
}

}  // namespace soapstone
