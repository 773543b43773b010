#include "server/shard/gathered_update.h"

#include <algorithm>
#include <utility>

namespace soapstone::server {

Contribution ContributionOf(wire::Message push, float weight) {
  return {push.worker, push.micro_batches,     push.samples, push.batch_samples,
          weight,      std::move(push.payload)};
}

void GatheredUpdate::Add(wire::Message push, float weight) {
  bucket_ = push.bucket;
  clock_ = push.clock;
  micro_batch_count_ = push.micro_batch_count;
  parts_.push_back(ContributionOf(std::move(push), weight));
}

WorkerId GatheredUpdate::Greatest(bool of_table) const {
  return std::max_element(parts_.begin(), parts_.end(),
                          [&](const Contribution& a, const Contribution& b) {
                            return GreatestMagnitude(a, of_table) < GreatestMagnitude(b, of_table);
                          })
      ->worker;
}

}  // namespace soapstone::server
