#include "server/store/count_store.h"

#include <cstring>

namespace soapstone::server {

void CountStore::Apply(BucketId bucket, const std::vector<Contribution>& parts) {
  Count& count = buckets_[Index(bucket)];
  for (const Contribution& part : parts) {
    ++count.applied;
    if (part.payload.empty() || part.payload[0].size() != sizeof(int64_t)) continue;
    int64_t delta = 0;
    std::memcpy(&delta, part.payload[0].data(), sizeof(delta));
    count.sum += delta;
  }
}

}  // namespace soapstone::server
