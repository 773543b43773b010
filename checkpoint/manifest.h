// The manifest of a checkpoint: what makes the parts beside it one. It is written last, and ends
// with the SHA-256 of its own lines; a folder without one that verifies is no checkpoint.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/part.h"
#include "wire/config/checkpoint.pb.h"

namespace soapstone::checkpoint {

inline constexpr uint32_t kFormat = 2;
inline constexpr char kManifestFile[] = "manifest.textproto";

// Lines with a last one, the SHA-256 of those above.
std::string Sealed(const std::string& lines);
// Of what Sealed made of lines that begin with kFormat. `name` stands for the file in errors:
// DataLoss where the text is not as it was written; FailedPrecondition where it is, and of another
// format.
absl::Status CheckSealed(const std::string& text, const std::string& name);

// Its lines, with the last. `manifest.format` is set, and the job's lines are put into one.
std::string ManifestText(wire::Checkpoint manifest);

// What ManifestText made. Errors: as CheckSealed's.
absl::StatusOr<wire::Checkpoint> ParseManifest(const std::string& text, const std::string& name);

PartSums SumsOf(const wire::CheckpointPart& part);
void AddPart(const std::string& file, const PartSums& sums, wire::Checkpoint* manifest);

}  // namespace soapstone::checkpoint
