#include "server/model_gatherer.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace soapstone::server {

static_assert(std::endian::native == std::endian::little, "files and hashes are little-endian");

ModelGatherer::ModelGatherer(std::shared_ptr<const wire::Layout> layout)
    : layout_(std::move(layout)),
      rows_of_(layout_->shard_count()),
      have_(layout_->shard_count(), false) {
  for (const ParamSpec& param : layout_->params()) tensors_.emplace_back(param.elements());
}

absl::StatusOr<bool> ModelGatherer::OnSlices(const wire::Message& message) {
  if (message.from.role != wire::Role::kShard || message.from.index >= have_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("slices from ", message.from.ToString(), ", which is no shard"));
  }
  const ShardId shard{message.from.index};
  const std::vector<wire::Slice>& slices = layout_->slices(shard);
  const size_t frames = slices.size() + 2 * layout_->tables().size();
  if (message.payload.size() != frames) {
    return absl::InvalidArgumentError(absl::StrCat(message.from.ToString(), " sent ",
                                                   message.payload.size(), " frames of ", frames));
  }
  for (size_t i = 0; i < slices.size(); ++i) {
    const Buffer& buffer = message.payload[i];
    if (buffer.size() != slices[i].elements() * sizeof(float) || !buffer.IsFloatAligned()) {
      return absl::InvalidArgumentError(
          absl::StrCat(message.from.ToString(), ": slice ", i, " has ", buffer.size(), " bytes"));
    }
    const auto values = buffer.floats();
    std::copy(values.begin(), values.end(),
              tensors_[Index(slices[i].param)].begin() + static_cast<ptrdiff_t>(slices[i].begin));
  }
  SOAP_RETURN_IF_ERROR(TakeRows(message));
  have_[Index(shard)] = true;
  if (std::find(have_.begin(), have_.end(), false) != have_.end()) return false;
  PutTablesTogether();
  return true;
}

absl::Status ModelGatherer::TakeRows(const wire::Message& message) {
  const auto first = message.payload.end() - static_cast<ptrdiff_t>(2 * layout_->tables().size());
  for (size_t t = 0; t < layout_->tables().size(); ++t) {
    const Buffer& keys = first[static_cast<ptrdiff_t>(2 * t)];
    const Buffer& rows = first[static_cast<ptrdiff_t>(2 * t + 1)];
    const size_t count = keys.size() / sizeof(uint64_t);
    std::vector<uint64_t> scratch;
    if (keys.size() % sizeof(uint64_t) != 0 || !rows.IsFloatAligned() ||
        rows.size() != count * layout_->tables()[t].dim * sizeof(float) ||
        !AscendStrictly(KeysOf(keys, &scratch))) {
      return absl::InvalidArgumentError(absl::StrCat(message.from.ToString(), ": table ", t,
                                                     " has ", keys.size(), " bytes of keys and ",
                                                     rows.size(), " of rows"));
    }
  }
  rows_of_[message.from.index].assign(first, message.payload.end());
  return absl::OkStatus();
}

// A key lives on one shard: nothing is added here.
void ModelGatherer::PutTablesTogether() {
  tables_.assign(layout_->tables().size(), {});
  for (size_t t = 0; t < tables_.size(); ++t) {
    for (const Buffers& frames : rows_of_) {
      SparseRows rows;
      std::vector<uint64_t> scratch;
      const absl::Span<const uint64_t> keys = KeysOf(frames[2 * t], &scratch);
      const absl::Span<const float> values = frames[2 * t + 1].floats();
      rows.keys.assign(keys.begin(), keys.end());
      rows.rows.assign(values.begin(), values.end());
      tables_[t] = SumOf(tables_[t], rows, layout_->tables()[t].dim);
    }
  }
}

std::string ModelGatherer::Sha256Hex() const {
  Sha256 hash;
  for (const std::vector<float>& tensor : tensors_) {
    hash.Update(tensor.data(), tensor.size() * sizeof(float));
  }
  for (const SparseRows& table : tables_) {
    hash.Update(table.keys.data(), table.keys.size() * sizeof(uint64_t));
    hash.Update(table.rows.data(), table.rows.size() * sizeof(float));
  }
  return hash.HexDigest();
}

}  // namespace soapstone::server
