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

uint64_t PushedGradient::Complete(const std::vector<wire::Bucket>& buckets,
                                  const std::vector<uint64_t>& offsets, PeerVectors* vectors) {
  uint64_t samples = 0;
  for (const wire::Message& push : pushes_) {
    const auto& body = wire::As<wire::Push>(push);
    samples = std::max(samples, body.samples);
    if (vectors == nullptr) continue;
    const std::vector<wire::Slice>& slices = buckets[Index(body.bucket)].slices;
    for (size_t i = 0; i < slices.size(); ++i) {
      vectors->AddGradient(offsets[Index(slices[i].param)] + slices[i].begin, push.payload[i]);
    }
  }
  pushes_.clear();
  samples_ += samples;
  return samples;
}

void PushedGradient::AddTo(Fingerprint* f) const {
  f->Add(pushes_.size());
  f->Add(samples_);
}

}  // namespace soapstone::server
