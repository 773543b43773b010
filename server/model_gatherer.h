// ModelGatherer: the end of the job on server 0: collects every shard's slices and rows, and puts
// whole tensors and tables together. An actor without I/O: the shell writes the file and reports
// kSaved.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sparse_rows.h"
#include "wire/layout.h"
#include "wire/message.h"

namespace soapstone::server {

class ModelGatherer {
 public:
  explicit ModelGatherer(std::shared_ptr<const wire::Layout> layout);

  // Takes kSlices of one shard. Returns true when this completed the model. Error: frames that do
  // not fit the layout. A shard's second answer replaces its first.
  absl::StatusOr<bool> OnSlices(const wire::Message& message);

  // The model so far, by parameter, row-major. REQUIRES: complete.
  const std::vector<std::vector<float>>& tensors() const { return tensors_; }
  // Its tables, all rows. REQUIRES: complete.
  const std::vector<SparseRows>& tables() const { return tables_; }
  // Hex SHA-256 over all parameters in order, row-major little-endian f32; then of each table the
  // keys, little-endian u64, and the rows.
  std::string Sha256Hex() const;

 private:
  absl::Status TakeRows(const wire::Message& message);
  void PutTablesTogether();

  std::shared_ptr<const wire::Layout> layout_;
  std::vector<std::vector<float>> tensors_;
  std::vector<SparseRows> tables_;
  std::vector<Buffers> rows_of_;  // by shard: keys and rows of each table
  std::vector<bool> have_;                    // by shard
};

}  // namespace soapstone::server
