#include "server/peer/final_read.h"

#include <algorithm>
#include <cstring>

namespace soapstone::server {

void FinalRead::Ask(Clock clock) {
  if (!clock_.has_value() || *clock_ != clock) {
    answers_.assign(layout_->shard_count(), {});
    answered_.assign(layout_->shard_count(), false);
  }
  clock_ = clock;
}

bool FinalRead::Fits(ShardId shard, const Buffers& answer, const PeerVectors& vectors) const {
  const std::vector<wire::Slice>& slices = layout_->slices(shard);
  return std::equal(slices.begin(), slices.end(), answer.begin(), answer.end(),
                    [&](const wire::Slice& slice, const Buffer& frame) {
                      return frame.size() == vectors.bytes({slice.begin, slice.end});
                    });
}

void FinalRead::Take(ShardId shard, Buffers answer) {
  answered_[Index(shard)] = true;
  answers_[Index(shard)] = std::move(answer);
}

bool FinalRead::complete() const {
  return std::find(answered_.begin(), answered_.end(), false) == answered_.end();
}

Buffer FinalRead::Flat(const std::vector<uint64_t>& offsets, const PeerVectors& vectors) const {
  const size_t element = vectors.bytes({0, 1});
  std::vector<std::byte> flat(vectors.bytes({0, vectors.elements()}));
  for (uint32_t k = 0; k < answers_.size(); ++k) {
    const std::vector<wire::Slice>& slices = layout_->slices(ShardId{k});
    for (size_t i = 0; i < slices.size(); ++i) {
      const Buffer& frame = answers_[k][i];
      std::memcpy(&flat[(offsets[Index(slices[i].param)] + slices[i].begin) * element],
                  frame.data(), frame.size());
    }
  }
  return Buffer::CopyOf(flat.data(), flat.size());
}

void FinalRead::AddTo(Fingerprint* f) const {
  f->Add(clock_.has_value());
  for (const bool answered : answered_) f->Add(answered);
}

}  // namespace soapstone::server
