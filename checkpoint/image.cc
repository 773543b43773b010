#include "checkpoint/image.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/folder.h"

namespace soapstone::checkpoint {

absl::StatusOr<Image> Image::Open(Disk* disk, const std::string& root,
                                  const wire::Checkpoint& manifest) {
  Image image;
  for (const wire::CheckpointPart& part : manifest.part()) {
    const std::string path = absl::StrCat(root, "/", NameOf(manifest.clock()), "/", part.file());
    SOAP_ASSIGN_OR_RETURN(PartReader reader, PartReader::Open(disk, path, SumsOf(part)));
    for (const StoredSlice& slice : reader.slices()) {
      image.pieces_[slice.param].push_back({image.parts_.size(), slice});
    }
    image.parts_.push_back(std::move(reader));
  }
  for (auto& [param, pieces] : image.pieces_) {
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return a.slice.begin < b.slice.begin; });
  }
  return image;
}

absl::Status Image::Fill(const std::string& param, uint64_t begin, const SliceTarget& target) {
  const uint64_t end = begin + target.values.size();
  uint64_t at = begin;
  std::optional<StoredSlice> met;  // the first of the pieces
  for (const Piece& piece : pieces_[param]) {
    const StoredSlice& slice = piece.slice;
    if (at == end || slice.begin > at) break;
    if (slice.end <= at) continue;
    const bool is_first = !met.has_value();
    if (is_first) {
      met = slice;
      target.first->resize(slice.first_at.has_value() ? target.values.size() : 0);
      target.second->resize(slice.second_at.has_value() ? target.values.size() : 0);
      *target.steps = slice.steps;
    } else if (slice.steps != met->steps ||
               slice.first_at.has_value() != met->first_at.has_value() ||
               slice.second_at.has_value() != met->second_at.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(param, ": its slices are of ", met->steps,
                                                     " and of ", slice.steps,
                                                     " steps, and cannot be put together"));
    }
    const uint64_t to = std::min(end, slice.end);
    SOAP_RETURN_IF_ERROR(FillFrom(piece, begin, at, to, target));
    at = to;
  }
  if (at == end) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("it lacks ", SliceName(param, at, end)));
}

// Elements [from, to) of the parameter; the target's begin at `begin`.
absl::Status Image::FillFrom(const Piece& piece, uint64_t begin, uint64_t from, uint64_t to,
                             const SliceTarget& target) {
  PartReader& part = parts_[piece.part];
  const StoredSlice& slice = piece.slice;
  const auto read = [&](uint64_t at, float* into) -> absl::Status {
    return part.Read(at + (from - slice.begin) * sizeof(float), into + (from - begin),
                     (to - from) * sizeof(float));
  };
  SOAP_RETURN_IF_ERROR(read(slice.values_at, target.values.data()));
  if (slice.first_at.has_value()) {
    SOAP_RETURN_IF_ERROR(read(*slice.first_at, target.first->data()));
  }
  if (slice.second_at.has_value()) {
    SOAP_RETURN_IF_ERROR(read(*slice.second_at, target.second->data()));
  }
  return absl::OkStatus();
}

}  // namespace soapstone::checkpoint
