// Reads IDX, the format of the MNIST family: a big-endian header, then unsigned bytes. Gzip or
// not. Called by dataset.cc; knows nothing of images or labels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace soapstone::models {

// Header: two zero bytes, the type (0x08: unsigned byte, the only one read here), the number of
// dimensions, then each dimension as a 32-bit big-endian integer.
struct IdxTensor {
  std::vector<int64_t> dims;
  std::vector<uint8_t> values;  // row-major, as many as the product of dims
};

// Errors: those of ReadMaybeGzip; InvalidArgument with the file's name for what is not IDX, has
// another type than bytes, or holds fewer or more bytes than its header says.
absl::StatusOr<IdxTensor> ReadIdx(const std::string& path);

}  // namespace soapstone::models
