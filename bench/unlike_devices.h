// What splits in unequal parts gain on two devices of which one is twice as fast as the other.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace soapstone::bench {

// A table: of five models the steps of equal splits (no search, AccPar with ratios of 1/2, the walk
// over even parts) and of unequal ones (by speed, AccPar, the walk), and what the best unequal one
// gains over the best of those that halve every operator or none. machine_file: of two devices.
// proposals: of each walk's chains. Errors: InvalidArgument: the file is no machine of two devices.
absl::StatusOr<std::string> UnlikeDevicesTable(const std::string& machine_file, uint64_t proposals);

}  // namespace soapstone::bench
