#include "checkpoint/image.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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
  return image;
}

absl::Status Image::CheckAllThere() const {
  for (const auto& [name, pieces] : pieces_) {
    uint64_t there = 0;
    for (const Piece& piece : pieces) there += piece.slice.of.end - piece.slice.of.begin;
    const uint64_t all = WholeBox(pieces[0].slice.of.box.shape).elements();
    if (there >= all) continue;
    return absl::DataLossError(absl::StrCat(name, " has ", there, " of ", all, " elements"));
  }
  return absl::OkStatus();
}

std::vector<Image::Param> Image::Params() const {
  std::vector<Param> params;
  for (const auto& [name, pieces] : pieces_) {
    const StoredSlice& first = pieces[0].slice;
    params.push_back(
        {.name = name,
         .shape = first.of.box.shape,
         .slices = pieces.size(),
         .moments = size_t{first.first_at.has_value()} + size_t{first.second_at.has_value()},
         .steps = first.steps});
  }
  return params;
}

absl::Status Image::Fill(const std::string& param, const Box& box, uint64_t begin,
                         const SliceTarget& target) {
  const Stretch wanted = {box, begin, begin + target.values.size()};
  std::vector<bool> filled(target.values.size());
  const StoredSlice* met = nullptr;  // the first of the pieces
  for (const Piece& piece : pieces_[param]) {
    const StoredSlice& slice = piece.slice;
    if (slice.of.box.shape != box.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat(param, " is [", absl::StrJoin(slice.of.box.shape, ","), "] there, and [",
                       absl::StrJoin(box.shape, ","), "] here"));
    }
    const std::vector<SharedRun> runs = SharedRuns(slice.of, wanted);
    if (runs.empty()) continue;
    if (met == nullptr) {
      met = &slice;
      const auto make_room = [&](const std::optional<uint64_t>& at, std::vector<float>* into) {
        if (into != nullptr) into->resize(at.has_value() ? target.values.size() : 0);
      };
      make_room(slice.first_at, target.first);
      make_room(slice.second_at, target.second);
      if (target.steps != nullptr) *target.steps = slice.steps;
    } else if (slice.steps != met->steps ||
               slice.first_at.has_value() != met->first_at.has_value() ||
               slice.second_at.has_value() != met->second_at.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(param, ": its slices are of ", met->steps,
                                                     " and of ", slice.steps,
                                                     " steps, and cannot be put together"));
    }
    SOAP_RETURN_IF_ERROR(FillFrom(piece, runs, begin, target));
    for (const SharedRun& run : runs) {
      const auto at = filled.begin() + static_cast<ptrdiff_t>(run.to - begin);
      std::fill_n(at, run.count, true);
    }
  }
  const auto missing = std::find(filled.begin(), filled.end(), false);
  if (missing == filled.end()) return absl::OkStatus();
  const auto at = [&](auto element) {
    return begin + static_cast<uint64_t>(element - filled.begin());
  };
  const Stretch gap = {box, at(missing), at(std::find(missing, filled.end(), true))};
  return absl::InvalidArgumentError(absl::StrCat("it lacks ", SliceName(param, gap)));
}

// A part has one block of its file at hand, so tensors are read one after another, each in its
// order. The target's elements begin at `begin`.
absl::Status Image::FillFrom(const Piece& piece, const std::vector<SharedRun>& runs, uint64_t begin,
                             const SliceTarget& target) {
  PartReader& part = parts_[piece.part];
  const StoredSlice& slice = piece.slice;
  const auto read = [&](uint64_t at, float* into) -> absl::Status {
    for (const SharedRun& run : runs) {
      SOAP_RETURN_IF_ERROR(part.Read(at + (run.from - slice.of.begin) * sizeof(float),
                                     into + (run.to - begin), run.count * sizeof(float)));
    }
    return absl::OkStatus();
  };
  SOAP_RETURN_IF_ERROR(read(slice.values_at, target.values.data()));
  if (slice.first_at.has_value() && target.first != nullptr) {
    SOAP_RETURN_IF_ERROR(read(*slice.first_at, target.first->data()));
  }
  if (slice.second_at.has_value() && target.second != nullptr) {
    SOAP_RETURN_IF_ERROR(read(*slice.second_at, target.second->data()));
  }
  return absl::OkStatus();
}

}  // namespace soapstone::checkpoint
