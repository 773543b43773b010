// `soapstone checkpoint prune`: which checkpoints go, which stay, and why. A part of the command's
// shell.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/disk.h"

namespace soapstone::apps {

struct PrunedCheckpoints {
  std::vector<int64_t> kept;        // the newest that are whole, ascending
  std::vector<int64_t> removed;     // ascending
  std::vector<int64_t> of_another;  // among the removed: of another format
  std::vector<std::string> left;    // newer ones that are not whole, a line each
  int64_t best = 0;                 // the best stays too; 0: there is none
};

// Leaves the newest `keep` that are whole, all that are newer than the oldest of these, and the
// best. What is kept is read to its last byte. The folder's lock is taken before anything is looked
// at, and held. Errors: FolderLock::Take's; NotFound where none is whole; FailedPrecondition where
// one that would be kept is of another format; checkpoint::ReadBest's; the disk's. But for the last
// nothing is removed.
absl::StatusOr<PrunedCheckpoints> PruneCheckpoints(checkpoint::Disk* disk,
                                                   const std::string& folder, int64_t keep);

}  // namespace soapstone::apps
