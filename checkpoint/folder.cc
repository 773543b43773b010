#include "checkpoint/folder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "checkpoint/best.h"

namespace soapstone::checkpoint {
namespace {

constexpr char kUnfinished[] = ".tmp";
constexpr uint64_t kManifestBytesMax = uint64_t{1} << 30;
constexpr size_t kDigitsMin = 9;

std::string Join(const std::string& folder, const std::string& name) {
  return absl::StrCat(folder, "/", name);
}

bool IsUnfinished(const std::string& name) {
  return absl::StartsWith(name, ".") && absl::EndsWith(name, kUnfinished);
}

// Of the name of a checkpoint; none: it is none.
std::optional<int64_t> ClockOf(const std::string& name) {
  int64_t clock = 0;
  if (name.size() < kDigitsMin || name.find_first_not_of("0123456789") != name.npos ||
      !absl::SimpleAtoi(name, &clock) || NameOf(clock) != name) {
    return std::nullopt;
  }
  return clock;
}

// By its own words: nothing of a path may lead out of the folder.
bool IsPlainName(const std::string& file) {
  return !file.empty() && file.find('/') == file.npos && file[0] != '.';
}

}  // namespace

std::string NameOf(int64_t clock) { return absl::StrFormat("%09d", clock); }

std::string UnderWay(const std::string& root, int64_t clock, uint64_t session) {
  return absl::StrFormat("%s/.%s.%016x%s", root, NameOf(clock), session, kUnfinished);
}

std::string PartFile(uint32_t shard) { return absl::StrCat("shard-", shard, ".safetensors"); }

absl::StatusOr<std::vector<int64_t>> ClocksIn(Disk* disk, const std::string& root) {
  const absl::StatusOr<std::vector<std::string>> names = disk->List(root);
  if (absl::IsNotFound(names.status())) return std::vector<int64_t>();
  if (!names.ok()) return absl::InvalidArgumentError(names.status().message());
  std::vector<int64_t> clocks;
  for (const std::string& name : *names) {
    if (IsUnfinished(name) || name == kBestFile) continue;
    const std::optional<int64_t> clock = ClockOf(name);
    if (!clock.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(root, ": is no folder of checkpoints: it has ",
                                                     name, "; give a folder of their own"));
    }
    clocks.push_back(*clock);
  }
  std::sort(clocks.begin(), clocks.end());
  return clocks;
}

absl::StatusOr<wire::Checkpoint> ReadManifest(Disk* disk, const std::string& root, int64_t clock) {
  const std::string path = Join(Join(root, NameOf(clock)), kManifestFile);
  const absl::StatusOr<std::string> text = ReadAll(disk, path, kManifestBytesMax);
  if (!text.ok()) return absl::DataLossError(text.status().message());
  SOAP_ASSIGN_OR_RETURN(wire::Checkpoint manifest, ParseManifest(*text, path));
  if (manifest.clock() != clock) {
    return absl::DataLossError(absl::StrCat(path, ": is of clock ", manifest.clock()));
  }
  for (const wire::CheckpointPart& part : manifest.part()) {
    if (IsPlainName(part.file())) continue;
    return absl::DataLossError(absl::StrCat(path, ": names no file beside it"));
  }
  return manifest;
}

std::vector<std::string> FaultsOf(Disk* disk, const std::string& root,
                                  const wire::Checkpoint& manifest) {
  std::vector<std::string> faults;
  const std::string folder = Join(root, NameOf(manifest.clock()));
  for (const wire::CheckpointPart& part : manifest.part()) {
    absl::StatusOr<PartReader> reader =
        PartReader::Open(disk, Join(folder, part.file()), SumsOf(part));
    if (!reader.ok()) {
      faults.emplace_back(reader.status().message());
      continue;
    }
    for (std::string& fault : reader->Faults()) faults.push_back(std::move(fault));
  }
  return faults;
}

absl::StatusOr<std::optional<wire::Checkpoint>> Newest(
    Disk* disk, const std::string& root,
    const std::function<absl::Status(const wire::Checkpoint&)>& takes,
    std::vector<std::string>* passed_over) {
  SOAP_ASSIGN_OR_RETURN(std::vector<int64_t> clocks, ClocksIn(disk, root));
  for (auto clock = clocks.rbegin(); clock != clocks.rend(); ++clock) {
    absl::StatusOr<wire::Checkpoint> manifest = ReadManifest(disk, root, *clock);
    const auto pass_over = [&](const auto& why) {
      passed_over->push_back(absl::StrCat("checkpoint ", *clock, " passed over: ", why));
    };
    if (absl::IsDataLoss(manifest.status())) {
      pass_over(manifest.status().message());
      continue;
    }
    SOAP_RETURN_IF_ERROR(manifest.status());
    SOAP_RETURN_IF_ERROR(takes(*manifest));
    const std::vector<std::string> faults = FaultsOf(disk, root, *manifest);
    if (faults.empty()) return std::optional(*std::move(manifest));
    pass_over(faults[0]);
  }
  return std::optional<wire::Checkpoint>();
}

absl::Status Commit(Disk* disk, const std::string& root, const wire::Checkpoint& manifest) {
  const std::string under_way = UnderWay(root, manifest.clock(), manifest.session());
  const std::string place = Join(root, NameOf(manifest.clock()));
  const std::string former = under_way.substr(0, under_way.size() - sizeof(kUnfinished) + 1) +
                             absl::StrCat(".former", kUnfinished);
  const auto commit = [&]() -> absl::Status {
    SOAP_ASSIGN_OR_RETURN(std::unique_ptr<Disk::File> file,
                          disk->Create(Join(under_way, kManifestFile)));
    const std::string text = ManifestText(manifest);
    SOAP_RETURN_IF_ERROR(file->Append(text.data(), text.size()));
    SOAP_RETURN_IF_ERROR(file->Sync());
    SOAP_RETURN_IF_ERROR(disk->SyncFolder(under_way));
    if (disk->List(place).ok()) SOAP_RETURN_IF_ERROR(disk->Rename(place, former));
    SOAP_RETURN_IF_ERROR(disk->Rename(under_way, place));
    return disk->SyncFolder(root);
  };
  absl::Status committed = commit();
  // That it could not be taken away is the lesser evil: who comes next does.
  disk->Remove(committed.ok() ? former : under_way).IgnoreError();
  return committed;
}

absl::Status Prune(Disk* disk, const std::string& root, const std::vector<int64_t>& keep) {
  SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> clocks, ClocksIn(disk, root));
  const auto stays = [&keep](int64_t clock) {
    return std::find(keep.begin(), keep.end(), clock) != keep.end();
  };
  const auto best = ReadBest(disk, root);  // one that is damaged names nothing
  if (best.ok() && best->has_value() && !stays((*best)->clock())) {
    SOAP_RETURN_IF_ERROR(RemoveBest(disk, root));
  }
  for (const int64_t clock : clocks) {
    if (stays(clock)) continue;
    SOAP_RETURN_IF_ERROR(disk->Remove(Join(root, NameOf(clock))));
  }
  return absl::OkStatus();
}

absl::Status RemoveUnfinished(Disk* disk, const std::string& root) {
  const absl::StatusOr<std::vector<std::string>> names = disk->List(root);
  if (!names.ok()) return absl::IsNotFound(names.status()) ? absl::OkStatus() : names.status();
  for (const std::string& name : *names) {
    if (IsUnfinished(name)) SOAP_RETURN_IF_ERROR(disk->Remove(Join(root, name)));
  }
  return absl::OkStatus();
}

}  // namespace soapstone::checkpoint
