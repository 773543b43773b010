// What a command line names of a folder of checkpoints: all of it, or one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "checkpoint/disk.h"
#include "wire/config/checkpoint.pb.h"

namespace soapstone::apps {

struct CheckpointPlace {
  std::string folder;
  std::optional<int64_t> clock = {};
  bool best = false;  // the one that the folder says is the best
};

// `where`: DIR, DIR/CLOCK or DIR/best. A folder whose own name is a number is DIR, unless there is
// such a checkpoint beside it; and so is one that is called best.
CheckpointPlace CheckpointPlaceOf(const std::string& where);

// The manifest of the one that is named; else of the newest that has one. Errors: NotFound where
// there is no such folder, or it has no checkpoint; those of checkpoint::ReadManifest and
// ReadBestManifest.
absl::StatusOr<wire::Checkpoint> ManifestAt(checkpoint::Disk* disk, const CheckpointPlace& place);

// Error: InvalidArgument where the file would be in the folder of checkpoints, in the way of the
// job or of what it has there.
absl::Status CheckApartFrom(const std::string& folder, const std::string& file);

}  // namespace soapstone::apps
