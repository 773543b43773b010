// Writes a model as safetensors (https://github.com/huggingface/safetensors): an 8-byte
// little-endian header length, a JSON header that gives each tensor's type, shape and place, then
// the raw little-endian data. Other frameworks read it. Server 0 calls it at the end of a job.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace soapstone::models {

// Of a tensor that is to be written: float32, or where it holds keys uint64.
struct TensorOutline {
  std::string name;
  std::vector<int64_t> shape;  // row-major
  bool keys = false;           // such tensors come first
  uint64_t bytes() const;
};

using Metadata = std::vector<std::pair<std::string, std::string>>;

// Writes a file as its values come, in the order of the outlines: nobody needs to have them all. To
// a temporary file beside `path`, which is then renamed: `path` is whole or untouched. What is
// written goes to the disk along the way, so that neither the end waits for all of it nor memory
// fills with it. One thread.
class SafetensorsWriter {
 public:
  // Metadata: string pairs for the header's __metadata__. Error: Unavailable, with the reason, when
  // the file cannot be written.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      const std::string& path, std::vector<TensorOutline> tensors, const Metadata& metadata);
  ~SafetensorsWriter();  // takes away what is not finished
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // The next bytes. Errors: Unavailable; InvalidArgument when there are more than the outlines say.
  absl::Status Append(const void* data, uint64_t bytes);
  // All are there. `metadata` takes the place of Create's: what is known only now; its texts have
  // the same lengths. Errors: as Append; InvalidArgument when values are missing or lengths differ.
  absl::Status Finish(const Metadata& metadata);

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  SafetensorsWriter(std::string path, std::vector<TensorOutline> tensors);
  absl::Status CannotWrite() const;
  absl::Status Sync();

  std::string path_;
  std::string temporary_;
  std::vector<TensorOutline> tensors_;
  uint64_t header_bytes_ = 0;
  uint64_t left_ = 0;      // bytes of values
  uint64_t unsynced_ = 0;  // bytes since the last Sync
  std::unique_ptr<std::FILE, CloseFile> file_;
};

struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;            // row-major
  absl::Span<const float> values;        // of that shape: dtype F32
  absl::Span<const uint64_t> keys = {};  // in their place: dtype U64. Such tensors come first.
};

// The same of values that are all at hand. Errors besides: InvalidArgument when a tensor's values
// do not fit its shape.
absl::Status WriteSafetensors(const std::string& path, absl::Span<const NamedTensor> tensors,
                              const Metadata& metadata);

// Whether a file could be created in the directory of `path`: asked before a job starts.
absl::Status CheckWritable(const std::string& path);

}  // namespace soapstone::models
