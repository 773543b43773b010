// A file that is whole whenever it is there: whoever is killed meanwhile leaves the former one.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace soapstone::timeline {

// Puts `text` into `path`. It is written without a name, where the file system has that, and then
// takes the place of what was there, unless that is a device, a pipe or a link: it is written into.
// Error: InvalidArgument, one line with what the system says; nothing is left behind.
absl::Status WriteWholeFile(const std::string& path, std::string_view text);

}  // namespace soapstone::timeline
