#include "apps/checkpoint_command/checkpoint_place.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/best.h"
#include "checkpoint/folder.h"

namespace soapstone::apps {

namespace fs = std::filesystem;

CheckpointPlace CheckpointPlaceOf(const std::string& where) {
  fs::path path = fs::path(where).lexically_normal();
  if (path.filename().empty() && path.has_parent_path()) path = path.parent_path();
  std::error_code error;
  if (path.filename() == checkpoint::kBestFile && !fs::is_directory(path, error)) {
    const fs::path of = path.has_parent_path() ? path.parent_path() : fs::path(".");
    return {.folder = of.string(), .best = true};
  }
  int64_t clock = 0;
  if (!absl::SimpleAtoi(path.filename().string(), &clock) || clock < 0) {
    return {.folder = path.string()};
  }
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const bool beside = fs::exists(folder / checkpoint::NameOf(clock), error);
  if (!beside && fs::is_directory(path, error)) return {.folder = path.string()};
  return {.folder = folder.string(), .clock = clock};
}

absl::StatusOr<wire::Checkpoint> ManifestAt(checkpoint::Disk* disk, const CheckpointPlace& place) {
  std::error_code error;
  if (!fs::exists(place.folder, error)) {
    return absl::NotFoundError(absl::StrCat(place.folder, ": No such file or directory"));
  }
  if (place.best) return checkpoint::ReadBestManifest(disk, place.folder);
  if (place.clock.has_value()) return checkpoint::ReadManifest(disk, place.folder, *place.clock);
  SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> clocks,
                        checkpoint::ClocksIn(disk, place.folder));
  absl::Status first = absl::NotFoundError(absl::StrCat(place.folder, " has no checkpoint"));
  for (auto clock = clocks.rbegin(); clock != clocks.rend(); ++clock) {
    auto manifest = checkpoint::ReadManifest(disk, place.folder, *clock);
    if (manifest.ok()) return manifest;
    if (clock == clocks.rbegin()) first = manifest.status();
  }
  return first;
}

absl::Status CheckApartFrom(const std::string& folder, const std::string& file) {
  std::error_code error;
  const fs::path out = fs::weakly_canonical(fs::absolute(file, error), error);
  const fs::path whole = fs::weakly_canonical(fs::absolute(folder, error), error);
  for (fs::path above = out.parent_path(); above != above.root_path();
       above = above.parent_path()) {
    if (above != whole) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file, " is in the folder of checkpoints: give another place"));
  }
  return absl::OkStatus();
}

}  // namespace soapstone::apps
