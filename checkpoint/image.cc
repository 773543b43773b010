#include "checkpoint/image.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "checkpoint/folder.h"

namespace soapstone::checkpoint {
namespace {

constexpr uint64_t kRowBytesAtOnce = uint64_t{4} << 20;

}  // namespace

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

absl::StatusOr<std::vector<Image::Table>> Image::Tables() const {
  std::map<std::string, Table> tables;
  for (const PartReader& part : parts_) {
    for (const StoredTable& stored : part.tables()) {
      const auto [at, is_new] = tables.try_emplace(stored.name);
      Table& table = at->second;
      if (is_new)
        table = {.name = stored.name, .form = {.dim = stored.form.dim}, .rows = 0, .hands = {}};
      // What rows have is not seen where there are none.
      if (table.rows == 0 && stored.form.dim == table.form.dim) table.form = stored.form;
      if (stored.form.dim != table.form.dim || (stored.rows > 0 && stored.form != table.form)) {
        return absl::DataLossError(absl::StrCat(part.path(), ": ", stored.name,
                                                " has rows of another form than elsewhere"));
      }
      table.rows += stored.rows;
      table.hands.push_back(stored.hand);
    }
  }
  std::vector<Table> all;
  for (auto& [name, table] : tables) {
    if (table.hands.size() < parts_.size()) {
      return absl::DataLossError(absl::StrCat("table ", name, " is in ", table.hands.size(), " of ",
                                              parts_.size(), " parts"));
    }
    all.push_back(std::move(table));
  }
  return all;
}

absl::Status Image::ForRows(
    const std::string& table,
    const std::function<absl::Status(size_t part, const StoredTable&, const StoredRows&)>& read) {
  for (size_t p = 0; p < parts_.size(); ++p) {
    const std::vector<StoredTable>& tables = parts_[p].tables();
    const auto stored = std::find_if(tables.begin(), tables.end(),
                                     [&](const StoredTable& t) { return t.name == table; });
    if (stored == tables.end()) {
      return absl::DataLossError(absl::StrCat(parts_[p].path(), ": lacks table ", table));
    }
    const uint64_t at_once = std::max<uint64_t>(1, kRowBytesAtOnce / stored->form.bytes());
    for (const StoredRows& block : stored->blocks) {
      for (uint64_t begin = block.begin; begin < block.end; begin += at_once) {
        StoredRows rows = block;
        rows.begin = begin;
        rows.end = std::min(block.end, begin + at_once);
        const uint64_t skipped = begin - block.begin;
        const uint64_t words = skipped * sizeof(uint64_t);
        const uint64_t floats = skipped * stored->form.dim * sizeof(float);
        for (uint64_t* at : {&rows.keys_at, &rows.steps_at, &rows.used_at}) *at += words;
        for (uint64_t* at : {&rows.values_at, &rows.first_at, &rows.second_at}) *at += floats;
        SOAP_RETURN_IF_ERROR(read(p, *stored, rows));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Image::ReadKeys(const std::string& table,
                             const std::function<void(absl::Span<const uint64_t>)>& take) {
  std::vector<uint64_t> keys;
  return ForRows(table, [&](size_t part, const StoredTable&, const StoredRows& rows) {
    keys.resize(rows.end - rows.begin);
    SOAP_RETURN_IF_ERROR(
        parts_[part].Read(rows.keys_at, keys.data(), keys.size() * sizeof(uint64_t)));
    take(keys);
    return absl::OkStatus();
  });
}

absl::Status Image::ReadRows(const std::string& table,
                             const std::function<bool(uint64_t key)>& wanted, bool state,
                             const TakeRows& take) {
  RowBlock block;
  return ForRows(table, [&](size_t part, const StoredTable& stored, const StoredRows& rows) {
    const RowForm form = state ? stored.form : RowForm{.dim = stored.form.dim};
    block.Resize(rows.end - rows.begin, form);
    const auto read = [&](uint64_t at, auto* into) -> absl::Status {
      return parts_[part].Read(at, into->data(), into->size() * sizeof((*into)[0]));
    };
    SOAP_RETURN_IF_ERROR(read(rows.keys_at, &block.keys));
    std::vector<size_t> kept;  // of the block
    for (size_t i = 0; i < block.keys.size(); ++i) {
      if (wanted(block.keys[i])) kept.push_back(i);
    }
    if (kept.empty()) return absl::OkStatus();
    SOAP_RETURN_IF_ERROR(read(rows.values_at, &block.values));
    SOAP_RETURN_IF_ERROR(read(rows.first_at, &block.first));
    SOAP_RETURN_IF_ERROR(read(rows.second_at, &block.second));
    SOAP_RETURN_IF_ERROR(read(rows.steps_at, &block.steps));
    SOAP_RETURN_IF_ERROR(read(rows.used_at, &block.used));
    for (std::vector<uint64_t>* words : {&block.keys, &block.steps, &block.used}) {
      for (size_t i = 0; i < kept.size() && !words->empty(); ++i) (*words)[i] = (*words)[kept[i]];
    }
    for (std::vector<float>* floats : {&block.values, &block.first, &block.second}) {
      for (size_t i = 0; i < kept.size() && !floats->empty(); ++i) {
        if (kept[i] == i) continue;
        std::copy_n(floats->begin() + static_cast<ptrdiff_t>(kept[i] * form.dim), form.dim,
                    floats->begin() + static_cast<ptrdiff_t>(i * form.dim));
      }
    }
    block.Resize(kept.size(), form);
    return take(part, block);
  });
}

}  // namespace soapstone::checkpoint
