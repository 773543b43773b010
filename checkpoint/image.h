// Image: the parts of a checkpoint as one: elements of parameters by name and range, and rows by
// table and key, whoever wrote them, so that a job of other shards can go on from it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/memory/row_block.h"
#include "checkpoint/box.h"
#include "checkpoint/disk.h"
#include "checkpoint/part.h"
#include "wire/config/checkpoint.pb.h"

namespace soapstone::checkpoint {

// What is filled in of a slice. Null: not wanted.
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

  struct Param {
    std::string name;
    std::vector<int64_t> shape;
    size_t slices = 0;
    size_t moments = 0;  // tensors of its shape that the optimizer remembers
    int64_t steps = 0;   // gradients that it has seen
  };
  // By name. Of slices that differ in moments or steps, which Fill refuses, the first one's.
  std::vector<Param> Params() const;

  // All elements of each parameter may be there, for there are as many. So no shape is larger than
  // what the files have, and work on all of it is bounded by their bytes. Error: DataLoss.
  absl::Status CheckAllThere() const;

  // Elements [begin, begin + n) of a box of a parameter, whatever boxes it was written in. Errors:
  // DataLoss where what is read is not as it was written; InvalidArgument where some are missing,
  // or were not at one step, or the parameter had another shape.
  absl::Status Fill(const std::string& param, const Box& box, uint64_t begin,
                    const SliceTarget& target);

  struct Table {
    std::string name;
    RowForm form;
    uint64_t rows = 0;
    std::vector<std::optional<uint32_t>> hands;  // by part
  };
  // By name. Error: DataLoss where parts differ in a table's form, or one lacks a table that
  // another has.
  absl::StatusOr<std::vector<Table>> Tables() const;

  // Rows of a table, part by part and in each part's order, in blocks of some MiB. Those of which
  // `wanted` takes the key; without `state` keys and values alone. Error: DataLoss where what is
  // read is not as it was written, or there is no such table; that of `take`, which ends it.
  using TakeRows = std::function<absl::Status(size_t part, const RowBlock& rows)>;
  absl::Status ReadRows(const std::string& table, const std::function<bool(uint64_t key)>& wanted,
                        bool state, const TakeRows& take);
  // All keys of a table, likewise in blocks.
  absl::Status ReadKeys(const std::string& table,
                        const std::function<void(absl::Span<const uint64_t>)>& take);

 private:
  struct Piece {
    size_t part = 0;
    StoredSlice slice;
  };
  absl::Status FillFrom(const Piece& piece, const std::vector<SharedRun>& runs, uint64_t begin,
                        const SliceTarget& target);

  // Calls `read` with each table of that name, and rows of it that are read at once.
  absl::Status ForRows(
      const std::string& table,
      const std::function<absl::Status(size_t part, const StoredTable&, const StoredRows&)>& read);

  std::vector<PartReader> parts_;
  std::map<std::string, std::vector<Piece>> pieces_;  // by parameter
};

}  // namespace soapstone::checkpoint
