// Reads a whole file into memory, unpacking it if it is gzip. Under the data readers.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace soapstone::models {

inline constexpr size_t kFileBytesMax = size_t{4} << 30;

// The file's bytes, unpacked. Errors, all with the file's name: NotFound or PermissionDenied or
// what else the system says; DataLoss for gzip that is cut off or corrupt; ResourceExhausted for
// more than `bytes_max` bytes unpacked.
absl::StatusOr<std::string> ReadMaybeGzip(const std::string& path,
                                          size_t bytes_max = kFileBytesMax);

}  // namespace soapstone::models
