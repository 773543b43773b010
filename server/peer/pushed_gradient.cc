#include "server/peer/pushed_gradient.h"

#include <algorithm>

namespace soapstone::server {

bool PushedGradient::Fits(const wire::Message& push, const std::vector<wire::Bucket>& buckets,
                          const PeerVectors* vectors) {
  const BucketId bucket = wire::As<wire::Push>(push).bucket;
  if (Index(bucket) >= buckets.size()) return false;
  if (vectors == nullptr) return true;
  const std::vector<wire::Slice>& slices = buckets[Index(bucket)].slices;
  return std::equal(slices.begin(), slices.end(), push.payload.begin(), push.payload.end(),
                    [&](const wire::Slice& slice, const Buffer& frame) {
                      return frame.size() == vectors->bytes({slice.begin, slice.end});
                    });
}

void PushedGradient::AddTo(PeerVectors* vectors, const wire::Message& push,
                           const std::vector<wire::Slice>& slices,
                           const std::vector<uint64_t>& offsets) const {
  if (vectors == nullptr) return;
  for (size_t i = 0; i < slices.size(); ++i) {
    vectors->AddGradient(offsets[Index(slices[i].param)] + slices[i].begin, push.payload[i]);
  }
}

std::vector<uint32_t> PushedGradient::AddPart(const wire::Message& push,
                                              const std::vector<wire::Bucket>& buckets,
                                              const std::vector<uint64_t>& offsets,
                                              PeerVectors* vectors) {
  const auto& body = wire::As<wire::Push>(push);
  const std::vector<wire::Slice>& slices = buckets[Index(body.bucket)].slices;
  AddTo(vectors, push, slices, offsets);
  part_samples_ = std::max(part_samples_, body.samples);
  if (missing_.empty()) {
    for (const ElementRange& stretch : stretches_) missing_.push_back(stretch.size());
  }
  std::vector<uint32_t> whole;
  for (const wire::Slice& slice : slices) {
    const uint64_t begin = offsets[Index(slice.param)] + slice.begin;
    const uint64_t end = begin + slice.elements();
    auto at =
        std::partition_point(stretches_.begin(), stretches_.end(),
                             [&](const ElementRange& stretch) { return stretch.end <= begin; });
    for (; at != stretches_.end() && at->begin < end; ++at) {
      const auto s = static_cast<uint32_t>(at - stretches_.begin());
      missing_[s] -= std::min(end, at->end) - std::max(begin, at->begin);
      if (missing_[s] == 0) whole.push_back(s);
    }
  }
  return whole;
}

uint64_t PushedGradient::Complete(const std::vector<wire::Bucket>& buckets,
                                  const std::vector<uint64_t>& offsets, PeerVectors* vectors) {
  missing_.clear();
  if (by_stretches()) return std::exchange(part_samples_, 0);
  uint64_t samples = 0;
  for (const wire::Message& push : pushes_) {
    const auto& body = wire::As<wire::Push>(push);
    samples = std::max(samples, body.samples);
    AddTo(vectors, push, buckets[Index(body.bucket)].slices, offsets);
  }
  pushes_.clear();
  samples_ += samples;
  return samples;
}

void PushedGradient::AddTo(Fingerprint* f) const {
  f->Add(pushes_.size());
  f->Add(samples_);
  for (const uint64_t elements : missing_) f->Add(elements);
}

}  // namespace soapstone::server
