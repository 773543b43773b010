// A number with its noun.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace soapstone {

// "1 server", "2 servers", "0 servers". For nouns whose plural is an s more.
inline std::string Counted(uint64_t n, const char* noun) {
  return absl::StrCat(n, " ", noun, n == 1 ? "" : "s");
}

}  // namespace soapstone
