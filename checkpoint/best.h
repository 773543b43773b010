// The file "best" of a folder of checkpoints: which of them is the best on held-out samples, and
// what it reached. A file and no link: it verifies itself, survives copying, and has the figures.
// Who goes on from a checkpoint does not look at it; who removes checkpoints does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/disk.h"
#include "wire/config/checkpoint.pb.h"

namespace soapstone::checkpoint {

inline constexpr char kBestFile[] = "best";

// None: there is no such file. Whether the checkpoint is there is not looked at. Errors: DataLoss
// where the file is not as it was written; FailedPrecondition where it is, and of another format.
absl::StatusOr<std::optional<wire::BestCheckpoint>> ReadBest(Disk* disk, const std::string& root);

// The manifest of the best. Errors besides those of ReadBest and ReadManifest: NotFound where none
// is said to be; DataLoss where another run has written one of the same clock since.
absl::StatusOr<wire::Checkpoint> ReadBestManifest(Disk* disk, const std::string& root);

// In the place of what was there, at once: a machine that ends meanwhile has the one or the other.
// On the disk when it returns. Error: the disk's; nobody knows which of them it is then.
absl::Status WriteBest(Disk* disk, const std::string& root, const wire::BestCheckpoint& best);

// On the disk when it returns. What is not there is no error.
absl::Status RemoveBest(Disk* disk, const std::string& root);

// By what `best` goes by. Equal is not better, and neither is what is no number.
bool IsBetter(const wire::BestCheckpoint& other, const wire::BestCheckpoint& best);

// "accuracy 0.9812", "loss 0.0712".
std::string FigureOf(const wire::BestCheckpoint& best);

}  // namespace soapstone::checkpoint
