#include "server/store/count_store.h"

#include <algorithm>
#include <cstring>

namespace soapstone::server {

CountedPart CountedPartOf(const Buffer& payload) {
  CountedPart part;
  if (payload.size() > 0)
    std::memcpy(&part, payload.data(), std::min(payload.size(), sizeof(part)));
  return part;
}

void CountStore::Apply(BucketId bucket, const std::vector<Contribution>& parts) {
  Count& count = buckets_[Index(bucket)];
  for (const Contribution& part : parts) {
    ++count.applied;
    if (part.payload.empty()) continue;
    const size_t bytes = part.payload[0].size();
    if (bytes != sizeof(int64_t) && bytes != sizeof(CountedPart)) continue;
    const CountedPart counted = CountedPartOf(part.payload[0]);
    count.sum += counted.sum;
    count.order += counted.order;
  }
}

}  // namespace soapstone::server
