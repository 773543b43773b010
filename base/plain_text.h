// Text of others (nodes, hosts, files), made harmless for a terminal.
#pragma once

#include <string>

namespace soapstone {

// Control characters are question marks: none of it moves a cursor or names a window.
inline std::string PlainText(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

}  // namespace soapstone
