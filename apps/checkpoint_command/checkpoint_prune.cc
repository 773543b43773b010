#include "apps/checkpoint_command/checkpoint_prune.h"

#include <algorithm>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/best.h"
#include "checkpoint/folder.h"
#include "checkpoint/folder_lock.h"

namespace soapstone::apps {

absl::StatusOr<PrunedCheckpoints> PruneCheckpoints(checkpoint::Disk* disk,
                                                   const std::string& folder, int64_t keep) {
  SOAP_ASSIGN_OR_RETURN(const checkpoint::FolderLock lock, checkpoint::FolderLock::Take(folder));
  SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> clocks, checkpoint::ClocksIn(disk, folder));
  PrunedCheckpoints pruned;
  auto clock = clocks.rbegin();
  for (; clock != clocks.rend() && std::ssize(pruned.kept) < keep; ++clock) {
    const auto manifest = checkpoint::ReadManifest(disk, folder, *clock);
    if (absl::IsFailedPrecondition(manifest.status())) return manifest.status();
    std::vector<std::string> faults;
    if (manifest.ok()) faults = checkpoint::FaultsOf(disk, folder, *manifest);
    if (!manifest.ok()) faults.emplace_back(manifest.status().message());
    if (faults.empty()) pruned.kept.push_back(*clock);
    if (!faults.empty()) {
      pruned.left.push_back(absl::StrCat("checkpoint ", *clock, ": ", faults[0]));
    }
  }
  if (pruned.kept.empty()) {
    return absl::NotFoundError(
        absl::StrCat(folder, " has no checkpoint that is whole: nothing is removed"));
  }
  std::reverse(pruned.kept.begin(), pruned.kept.end());
  // Nothing goes that is newer than the oldest of those: what cannot be read today may be whole.
  std::vector<int64_t> stay(clock.base(), clocks.end());
  // Where nobody knows any more which is the best, it would go.
  SOAP_RETURN_IF_ERROR(checkpoint::ReadBest(disk, folder).status());
  const auto best = checkpoint::ReadBestManifest(disk, folder);
  if (best.ok()) {
    pruned.best = best->clock();
    stay.push_back(pruned.best);
  }
  for (auto older = clocks.begin(); older != clock.base(); ++older) {
    if (*older == pruned.best) continue;
    pruned.removed.push_back(*older);
    const auto manifest = checkpoint::ReadManifest(disk, folder, *older);
    if (absl::IsFailedPrecondition(manifest.status())) pruned.of_another.push_back(*older);
  }
  SOAP_RETURN_IF_ERROR(checkpoint::Prune(disk, folder, stay));
  return pruned;
}

}  // namespace soapstone::apps
