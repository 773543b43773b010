#include "checkpoint/best.h"

#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "wire/config/text_config.h"

namespace soapstone::checkpoint {
namespace {

constexpr uint64_t kBestBytesMax = uint64_t{1} << 16;
// It ends as what is not finished does: who comes next takes it away.
constexpr char kBestUnderWay[] = ".best.tmp";

std::string BestPath(const std::string& root) { return absl::StrCat(root, "/", kBestFile); }

}  // namespace

absl::StatusOr<std::optional<wire::BestCheckpoint>> ReadBest(Disk* disk, const std::string& root) {
  const std::string path = BestPath(root);
  const absl::StatusOr<std::string> text = ReadAll(disk, path, kBestBytesMax);
  if (absl::IsNotFound(text.status())) return std::optional<wire::BestCheckpoint>();
  if (!text.ok()) return absl::DataLossError(text.status().message());
  SOAP_RETURN_IF_ERROR(CheckSealed(*text, path));
  wire::BestCheckpoint best;
  const absl::Status parsed = wire::ParseTextConfig(*text, path, &best);
  if (!parsed.ok()) return absl::DataLossError(parsed.message());
  if (best.clock() < 0) return absl::DataLossError(absl::StrCat(path, ": names no clock"));
  return std::optional(best);
}

absl::StatusOr<wire::Checkpoint> ReadBestManifest(Disk* disk, const std::string& root) {
  SOAP_ASSIGN_OR_RETURN(const std::optional<wire::BestCheckpoint> best, ReadBest(disk, root));
  if (!best.has_value()) {
    return absl::NotFoundError(
        absl::StrCat(root, " has no best checkpoint: a job with --keep_best says which it is"));
  }
  absl::StatusOr<wire::Checkpoint> manifest = ReadManifest(disk, root, best->clock());
  if (absl::IsDataLoss(manifest.status())) {
    return absl::DataLossError(absl::StrCat("the best of ", root, ", checkpoint ", best->clock(),
                                            ": ", manifest.status().message()));
  }
  if (manifest.ok() && manifest->session() != best->session()) {
    return absl::DataLossError(absl::StrCat("the best of ", root, " was checkpoint ", best->clock(),
                                            " of another run than wrote the one that is there"));
  }
  return manifest;
}

absl::Status WriteBest(Disk* disk, const std::string& root, const wire::BestCheckpoint& best) {
  const std::string under_way = absl::StrCat(root, "/", kBestUnderWay);
  const auto write = [&]() -> absl::Status {
    wire::BestCheckpoint said = best;
    said.set_format(kFormat);
    const std::string text = Sealed(wire::TextOf(said));
    SOAP_ASSIGN_OR_RETURN(const std::unique_ptr<Disk::File> file, disk->Create(under_way));
    SOAP_RETURN_IF_ERROR(file->Append(text.data(), text.size()));
    SOAP_RETURN_IF_ERROR(file->Sync());
    SOAP_RETURN_IF_ERROR(disk->Rename(under_way, BestPath(root)));
    return disk->SyncFolder(root);
  };
  absl::Status written = write();
  if (!written.ok()) disk->Remove(under_way).IgnoreError();
  return written;
}

absl::Status RemoveBest(Disk* disk, const std::string& root) {
  SOAP_RETURN_IF_ERROR(disk->Remove(BestPath(root)));
  return disk->SyncFolder(root);
}

bool IsBetter(const wire::BestCheckpoint& other, const wire::BestCheckpoint& best) {
  const auto figure = [&](const wire::BestCheckpoint& of) {
    return best.by_loss() ? -of.loss() : of.accuracy();
  };
  if (std::isnan(figure(other))) return false;
  return std::isnan(figure(best)) || figure(other) > figure(best);
}

std::string FigureOf(const wire::BestCheckpoint& best) {
  return best.by_loss() ? absl::StrFormat("loss %.4f", best.loss())
                        : absl::StrFormat("accuracy %.4f", best.accuracy());
}

}  // namespace soapstone::checkpoint
