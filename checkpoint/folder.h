// A folder of checkpoints: which are there, and how one comes to be there whole or not at all.
//
//   000000400/                  a checkpoint: the state before clock 400, in the parts that its
//                               manifest (kManifestFile) names
//   .000000500.SESSION.tmp/     one that a run of that session is writing
//   best                        which of them is the best on held-out samples (best.h)
//
// Parts are written into the second, and are on the disk when they are said to be written; then the
// manifest; then the folder gets its name, which is the moment from which it counts. A machine that
// ends at any moment leaves the newest that was committed, or the one before that and the new one
// in whole: never a checkpoint in part.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/disk.h"
#include "checkpoint/manifest.h"

namespace soapstone::checkpoint {

// "000000400".
std::string NameOf(int64_t clock);
// Where parts of the checkpoint of `clock` are written by a run.
std::string UnderWay(const std::string& root, int64_t clock, uint64_t session);
// "shard-3.safetensors".
std::string PartFile(uint32_t shard);

// The clocks of what looks like a checkpoint, ascending; whether they are is not looked at. Of a
// folder that is not there: none. Error: InvalidArgument where `root` is no folder, or has other
// things in it: nobody's files are to be among checkpoints, which are removed.
absl::StatusOr<std::vector<int64_t>> ClocksIn(Disk* disk, const std::string& root);

// The manifest of one. Errors as ParseManifest's; DataLoss too where there is none, or it is of
// another clock.
absl::StatusOr<wire::Checkpoint> ReadManifest(Disk* disk, const std::string& root, int64_t clock);

// All bytes of its parts: a line for each fault.
std::vector<std::string> FaultsOf(Disk* disk, const std::string& root,
                                  const wire::Checkpoint& manifest);

// The newest that verifies, at `at_most` or before. `passed_over` gets a line for each that does
// not. Error: FailedPrecondition of the first that is whole and not to be used: of another format,
// or refused by `takes`.
absl::StatusOr<std::optional<wire::Checkpoint>> Newest(
    Disk* disk, const std::string& root,
    const std::function<absl::Status(const wire::Checkpoint&)>& takes,
    std::vector<std::string>* passed_over);

// Makes a checkpoint of the parts in UnderWay(root, manifest.clock, manifest.session), which are on
// the disk. One of the same clock that is there gives way. Error: the disk's; there is no new one
// then, and nothing of it.
absl::Status Commit(Disk* disk, const std::string& root, const wire::Checkpoint& manifest);

// Removes all checkpoints but those of `keep`. What is said to be the best and goes is said no more
// before that.
absl::Status Prune(Disk* disk, const std::string& root, const std::vector<int64_t>& keep);

// Removes what was not finished. REQUIRES: no run is writing there.
absl::Status RemoveUnfinished(Disk* disk, const std::string& root);

}  // namespace soapstone::checkpoint
