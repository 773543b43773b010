// Writes a model as safetensors (https://github.com/huggingface/safetensors): an 8-byte
// little-endian header length, a JSON header that gives each tensor's type, shape and place, then
// the raw little-endian data. Other frameworks read it. Server 0 calls it at the end of a job.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace soapstone::models {

struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;            // row-major
  absl::Span<const float> values;        // of that shape: dtype F32
  absl::Span<const uint64_t> keys = {};  // in their place: dtype U64. Such tensors come first.
};

// Writes to a temporary file beside `path`, then renames it: `path` is whole or untouched.
// Metadata: string pairs for the header's __metadata__. Errors: InvalidArgument when a tensor's
// values do not fit its shape; Unavailable, with the reason, when the file cannot be written.
absl::Status WriteSafetensors(const std::string& path, absl::Span<const NamedTensor> tensors,
                              const std::vector<std::pair<std::string, std::string>>& metadata);

// Whether a file could be created in the directory of `path`: asked before a job starts.
absl::Status CheckWritable(const std::string& path);

}  // namespace soapstone::models
