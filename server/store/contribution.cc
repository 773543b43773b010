#include "server/store/contribution.h"

#include <algorithm>
#include <variant>

#include "base/finite.h"

namespace soapstone::server {

compute::Update UpdateOf(const TensorStoreOptions& options, Clock clock,
                         const std::vector<Contribution>& parts) {
  double samples = 0;
  for (const Contribution& part : parts) {
    samples += static_cast<double>(part.weight) * static_cast<double>(part.samples);
  }
  const auto* rule = std::get_if<consistency::OptimizerRule>(&options.rule);
  const bool mean = rule != nullptr && rule->mean;
  const double batch = mean ? samples : static_cast<double>(parts[0].batch_samples);
  const double lr =
      compute::LearningRate(options.optimizer, options.schedule, clock, options.total_clocks);
  return {.lr = lr, .scale = 1.0 / batch, .fraction = samples / batch};
}

uint64_t SamplesOf(const std::vector<Contribution>& parts) {
  uint64_t samples = 0;
  for (const Contribution& part : parts) samples += part.samples;
  return samples;
}

float GreatestMagnitude(const Contribution& part, bool of_table) {
  float most = 0;
  for (size_t i = of_table ? 1 : 0; i < part.payload.size(); ++i) {
    most = std::max(most, soapstone::GreatestMagnitude(part.payload[i].floats()));
  }
  return most;
}

}  // namespace soapstone::server
