// A part of a checkpoint: one shard's slices and rows, as a safetensors file that other programs
// read too. Of a slice of 4,096 elements of fc1.weight the tensors "fc1.weight[0,4096)", and what
// the optimizer remembers of it, ".first" and ".second" behind that, where it remembers something;
// in the metadata how many gradients it has seen (".steps"), and the parameter's shape
// ("fc1.weight.shape": "[256,128]"). Elements are those of the whole parameter, row-major. Of a box
// that a strategy cut out of it they are those of the box: "fc1.weight[0:64,32:96][0,4096)" is all
// of rows 0 to 63, columns 32 to 95. Rows of tables come before them (checkpoint/table_part.h).
//
// Each MiB of the file has a checksum, in the manifest: what is read is checked, nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "checkpoint/box.h"
#include "checkpoint/disk.h"
#include "checkpoint/table_part.h"

namespace soapstone::checkpoint {

inline constexpr uint64_t kBlockBytes = uint64_t{1} << 20;

// A slice of a parameter with its optimizer's state; views or owned elsewhere.
struct PartSlice {
  std::string param;               // of the model
  Box box;                         // of it
  uint64_t begin = 0;              // element of the box
  absl::Span<const float> values;  // [n]
  absl::Span<const float> first;   // [n], or empty
  absl::Span<const float> second;  // likewise
  int64_t steps = 0;
};

// "fc1.weight[0,4096)", "fc1.weight[0:64,32:96][0,4096)".
std::string SliceName(const std::string& param, const Stretch& of);

struct PartSums {
  uint64_t bytes = 0;
  std::vector<uint64_t> blocks;  // XXH3-64 of each MiB, the last of less
  friend bool operator==(const PartSums&, const PartSums&) = default;
};

PartSums SumsOfBytes(const void* data, size_t bytes);

// Writes the file, and has it on the disk, with its name in `path`'s folder. Error: the disk's, or
// that of a table's `next`.
absl::StatusOr<PartSums> WritePart(Disk* disk, const std::string& path, int64_t clock,
                                   absl::Span<const PartSlice> slices,
                                   absl::Span<const PartTable> tables = {});

// Where a slice lies in a part.
struct StoredSlice {
  std::string param;
  Stretch of;  // it
  // Bytes of the file where each begins; first and second: none.
  uint64_t values_at = 0;
  std::optional<uint64_t> first_at;
  std::optional<uint64_t> second_at;
  int64_t steps = 0;
};

// Reads a part. Whatever is in the file is an error and no crash: DataLoss, one line that begins
// with the file's path.
class PartReader {
 public:
  // `disk` outlives it.
  static absl::StatusOr<PartReader> Open(Disk* disk, std::string path, PartSums sums);

  const std::string& path() const { return path_; }
  const std::vector<StoredSlice>& slices() const { return slices_; }
  const std::vector<StoredTable>& tables() const { return tables_; }
  // Bytes [offset, offset + bytes), checked.
  absl::Status Read(uint64_t offset, void* data, uint64_t bytes);
  // Every block: a line each that is not as it was written, with the tensor that it is in.
  std::vector<std::string> Faults();

 private:
  PartReader(Disk* disk, std::string path, PartSums sums)
      : disk_(disk), path_(std::move(path)), sums_(std::move(sums)) {}
  absl::Status LoadBlock(uint64_t block);
  absl::Status ReadHeader();
  std::string TensorAt(uint64_t offset) const;

  Disk* disk_;
  std::string path_;
  PartSums sums_;
  std::vector<StoredSlice> slices_;
  std::vector<StoredTable> tables_;
  uint64_t header_bytes_ = 0;
  std::optional<uint64_t> block_;  // in buffer_
  std::string buffer_;
};

}  // namespace soapstone::checkpoint
