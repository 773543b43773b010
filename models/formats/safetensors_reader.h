// Reads safetensors files (models/formats/safetensors_writer.h says what they are), also those of
// others: whatever is in the file, it is an error and no crash. Called by weights.cc, and by who
// reads rows of tables and what is said of a model beside its values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace soapstone::models {

struct StoredTensor {
  std::string name;
  std::string type;  // the file's: "F32", "F16", "BF16", "U64", ..
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes of the file
};

// The tensors of a file, in the order of their bytes. Errors, each one line that begins with the
// file's name: NotFound; InvalidArgument where it is cut short, its header is larger than the file
// or no JSON, tensors overlap or leave gaps, a tensor's bytes are not those of its shape.
absl::StatusOr<std::vector<StoredTensor>> ReadSafetensorsHeader(const std::string& path);

// The texts of its __metadata__, by name; those that are no text are left out. Errors: as above,
// where the header is at fault.
absl::StatusOr<std::map<std::string, std::string>> ReadSafetensorsMetadata(const std::string& path);

// True for the types that ReadFloats takes.
bool IsFloatType(const std::string& type);

// The values of one tensor, of F32, F16 or BF16, all exactly as float.
absl::StatusOr<std::vector<float>> ReadFloats(const std::string& path, const StoredTensor& tensor);

// The values of one tensor of U64.
absl::StatusOr<std::vector<uint64_t>> ReadKeys(const std::string& path, const StoredTensor& tensor);

}  // namespace soapstone::models
