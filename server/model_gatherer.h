// ModelGatherer: the end of the job on server 0: collects every shard's slices and puts the whole
// tensors together. An actor without I/O: the shell writes the file and reports kSaved.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
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
  // Hex SHA-256 over all parameters in order, row-major little-endian f32.
  std::string Sha256Hex() const;

 private:
  std::shared_ptr<const wire::Layout> layout_;
  std::vector<std::vector<float>> tensors_;
  std::vector<bool> have_;  // by shard
};

}  // namespace soapstone::server
