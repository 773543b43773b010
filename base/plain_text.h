// Text of others (nodes, hosts, files), made harmless for a terminal.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace soapstone {

// A question mark for each character that does something else than to be seen, and for each byte
// that is not UTF-8: controls (C0, DEL, C1: they move cursors and name windows), line separators,
// and what turns the direction of writing (a text that reads otherwise than it is). Line feeds
// too.
std::string PlainText(absl::string_view text);
// The same of each line; line feeds stay.
std::string PlainLines(absl::string_view text);

}  // namespace soapstone
