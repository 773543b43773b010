// Files as wholes: what people write for us is read to its end, within bounds, and never waits;
// what we write is whole whenever it is there: whoever is killed meanwhile, or finds the disk full,
// leaves the former one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace soapstone {

// InvalidArgument where something is there that is no file: a folder reads as nothing, a pipe waits
// for who writes into it, a device may never end.
absl::Status CheckIsFile(const std::string& path);

// All of a file. Errors: as CheckIsFile; NotFound with what the system says; ResourceExhausted
// beyond `bytes_max`. Each begins with the path.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          size_t bytes_max = size_t{256} << 20);

// Puts `text` into `path`. It is written without a name, where the file system has that, and then
// takes the place of what was there, unless that is a device, a pipe or a link: it is written into.
// Error: InvalidArgument, one line with what the system says; nothing is left behind.
absl::Status WriteWholeFile(const std::string& path, std::string_view text);

}  // namespace soapstone
