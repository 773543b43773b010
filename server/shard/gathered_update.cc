#include "server/shard/gathered_update.h"

#include <algorithm>
#include <utility>

namespace soapstone::server {

Contribution ContributionOf(wire::Message push, float weight) {
  const auto& body = wire::As<wire::Push>(push);
  return {push.worker, body.micro_batches,     body.samples, body.batch_samples,
          weight,      std::move(push.payload)};
}

void GatheredUpdate::Add(wire::Message push, float weight) {
  const auto& body = wire::As<wire::Push>(push);
  bucket_ = body.bucket;
  clock_ = push.clock;
  micro_batch_count_ = body.micro_batch_count;
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
