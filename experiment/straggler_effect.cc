#include "experiment/straggler_effect.h"

#include <glog/logging.h>

#include <algorithm>
#include <vector>

#include "cluster/straggler.h"

namespace soapstone::experiment {
namespace {

constexpr Clock kFactorsMax = 100'000;  // of one run

double MeanOf(absl::Span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// factors: [workers, clocks]
StragglerEffect EffectOfRun(const std::vector<double>& factors, size_t workers, size_t clocks) {
  const auto part = [&](size_t w, size_t from, size_t to) {
    return absl::MakeConstSpan(factors).subspan(w * clocks + from, to - from);
  };
  const size_t half = clocks / 2;
  std::vector<double> first, second, whole;
  for (size_t w = 0; w < workers; ++w) {
    first.push_back(MeanOf(part(w, 0, half)));
    second.push_back(MeanOf(part(w, half, clocks)));
    whole.push_back(MeanOf(part(w, 0, clocks)));
  }
  const auto slowest =
      static_cast<size_t>(std::max_element(first.begin(), first.end()) - first.begin());
  StragglerEffect effect{.lasting = 1, .passing = 0};
  if (workers > 1) {
    const double all = MeanOf(second) * static_cast<double>(workers);
    effect.lasting = second[slowest] * static_cast<double>(workers - 1) / (all - second[slowest]);
  }
  for (size_t c = 0; c < clocks; ++c) {
    double most = 0;
    for (size_t w = 0; w < workers; ++w) most = std::max(most, factors[w * clocks + c] / whole[w]);
    effect.passing += most / static_cast<double>(clocks);
  }
  return effect;
}

}  // namespace

StragglerEffect EffectOf(const std::string& text, absl::Span<const uint64_t> seeds,
                         uint32_t workers, Clock clocks) {
  clocks = std::max<Clock>(2, std::min<Clock>(clocks, kFactorsMax / workers));
  StragglerEffect mean{.lasting = 0, .passing = 0};
  for (const uint64_t seed : seeds) {
    const auto model = sim::StragglerModel::Parse(text, seed);
    CHECK(model.ok()) << model.status();
    std::vector<double> factors;
    factors.reserve(workers * static_cast<size_t>(clocks));
    for (uint32_t w = 0; w < workers; ++w) {
      for (Clock c = 0; c < clocks; ++c) factors.push_back(model->Factor(WorkerId{w}, c));
    }
    const StragglerEffect one = EffectOfRun(factors, workers, static_cast<size_t>(clocks));
    mean.lasting += one.lasting / static_cast<double>(seeds.size());
    mean.passing += one.passing / static_cast<double>(seeds.size());
  }
  return mean;
}

}  // namespace soapstone::experiment
