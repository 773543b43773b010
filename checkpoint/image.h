// Image: the parts of a checkpoint as one: elements of parameters by name and range, whoever wrote
// them, so that a job of other shards can go on from it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "checkpoint/disk.h"
#include "checkpoint/part.h"
#include "wire/config/checkpoint.pb.h"

namespace soapstone::checkpoint {

// What is filled in of a slice.
struct SliceTarget {
  absl::Span<float> values;             // [n]
  std::vector<float>* first = nullptr;  // [n], or empty
  std::vector<float>* second = nullptr;
  int64_t* steps = nullptr;
};

// One thread.
class Image {
 public:
  // `disk` outlives it. Error: DataLoss, as PartReader's.
  static absl::StatusOr<Image> Open(Disk* disk, const std::string& root,
                                    const wire::Checkpoint& manifest);

  // Elements [begin, begin + n) of a parameter. Errors: DataLoss where what is read is not as it
  // was written; InvalidArgument where some are missing, or were not at one step.
  absl::Status Fill(const std::string& param, uint64_t begin, const SliceTarget& target);

 private:
  struct Piece {
    size_t part = 0;
    StoredSlice slice;
  };
  absl::Status FillFrom(const Piece& piece, uint64_t begin, uint64_t from, uint64_t to,
                        const SliceTarget& target);

  std::vector<PartReader> parts_;
  std::map<std::string, std::vector<Piece>> pieces_;  // by parameter, ascending
};

}  // namespace soapstone::checkpoint
