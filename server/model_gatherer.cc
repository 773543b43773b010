#include "server/model_gatherer.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"

namespace soapstone::server {

static_assert(std::endian::native == std::endian::little, "files and hashes are little-endian");

ModelGatherer::ModelGatherer(std::shared_ptr<const wire::Layout> layout)
    : layout_(std::move(layout)), have_(layout_->shard_count(), false) {
  for (const ParamSpec& param : layout_->params()) tensors_.emplace_back(param.elements());
}

absl::StatusOr<bool> ModelGatherer::OnSlices(const wire::Message& message) {
  if (message.from.role != wire::Role::kShard || message.from.index >= have_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("slices from ", message.from.ToString(), ", which is no shard"));
  }
  const ShardId shard{message.from.index};
  const std::vector<wire::Slice>& slices = layout_->slices(shard);
  if (message.payload.size() != slices.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        message.from.ToString(), " sent ", message.payload.size(), " slices of ", slices.size()));
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
  have_[Index(shard)] = true;
  return std::find(have_.begin(), have_.end(), false) == have_.end();
}

std::string ModelGatherer::Sha256Hex() const {
  Sha256 hash;
  for (const std::vector<float>& tensor : tensors_) {
    hash.Update(tensor.data(), tensor.size() * sizeof(float));
  }
  return hash.HexDigest();
}

}  // namespace soapstone::server
