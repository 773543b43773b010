#include "experiment/statistics.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/random.h"

namespace soapstone::experiment {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr uint64_t kResamples = 4000;
constexpr double kTail = 0.025;

double SpentAt(const CurvePoint& point, Claim::Measure measure) {
  return measure == Claim::bytes ? static_cast<double>(point.bytes) : point.time_s;
}

double SpentInAll(const RunOutcome& outcome, Claim::Measure measure) {
  return measure == Claim::bytes ? static_cast<double>(outcome.bytes) : outcome.duration_s;
}

// Accuracy at `spent`, linear between points. REQUIRES: not before the first point.
double AccuracyAt(const RunOutcome& outcome, Claim::Measure measure, double spent) {
  const std::vector<CurvePoint>& curve = outcome.curve;
  const auto next = std::find_if(curve.begin(), curve.end(), [&](const CurvePoint& point) {
    return SpentAt(point, measure) >= spent;
  });
  if (next == curve.end()) return curve.back().test_accuracy;
  if (next == curve.begin()) return next->test_accuracy;
  const CurvePoint& before = *(next - 1);
  const double from = SpentAt(before, measure), to = SpentAt(*next, measure);
  const double share = to > from ? (spent - from) / (to - from) : 1;
  return before.test_accuracy + share * (next->test_accuracy - before.test_accuracy);
}

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return kNaN;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1 || values[middle] == values[middle - 1]) return values[middle];
  return values[middle - 1] / 2 + values[middle] / 2;
}

Estimate BootstrapMedian(absl::Span<const double> values, uint64_t seed) {
  const size_t n = values.size();
  Estimate estimate{
      .median = Median({values.begin(), values.end()}), .low = kNaN, .high = kNaN, .count = n};
  if (n < 2) return estimate;
  const CounterRandom random(seed, RandomUse::kBootstrap);
  std::vector<double> medians(kResamples);
  std::vector<double> sample(n);
  for (uint64_t r = 0; r < kResamples; ++r) {
    for (size_t i = 0; i < n; ++i) sample[i] = values[random.Below(r * n + i, n)];
    medians[r] = Median(sample);
  }
  std::sort(medians.begin(), medians.end());
  const auto cut = static_cast<size_t>(kTail * static_cast<double>(kResamples));
  estimate.low = medians[cut];
  estimate.high = medians[kResamples - 1 - cut];
  return estimate;
}

Cost CostToTarget(const RunOutcome& outcome, double target, Claim::Measure measure) {
  const double in_all = SpentInAll(outcome, measure);
  if (measure == Claim::rate) return {.reached = true, .value = in_all};
  if (outcome.curve.empty()) return {.reached = outcome.test_accuracy >= target, .value = in_all};
  const std::optional<double> spent = SpentUntil(
      outcome.curve, target, [measure](const auto& point) { return SpentAt(point, measure); });
  return {.reached = spent.has_value(), .value = spent.value_or(in_all)};
}

double ValueOf(const Cost& cost) { return cost.reached ? cost.value : kInfinity; }

// With costs f of `faster` and t of `than`, each known or known to be above what was spent:
//   t / f   both reached
//   [t / f, inf)   only `faster` did: t is at least that     (0, t / f]   only `than` did
RatioEstimate PairedRatio(absl::Span<const Cost> faster, absl::Span<const Cost> than,
                          uint64_t seed) {
  CHECK_EQ(faster.size(), than.size());
  std::vector<double> least, most;
  least.reserve(faster.size());
  most.reserve(faster.size());
  for (size_t i = 0; i < faster.size(); ++i) {
    const double ratio =
        than[i].value == faster[i].value ? 1 : than[i].value / faster[i].value;  // also of 0 and 0
    least.push_back(faster[i].reached ? ratio : 0);
    most.push_back(than[i].reached ? ratio : kInfinity);
  }
  return {.at_least = BootstrapMedian(least, seed), .at_most = BootstrapMedian(most, seed)};
}

double CurveEnd(const std::vector<const RunOutcome*>& runs, Claim::Measure measure) {
  double end = 0;
  for (const RunOutcome* run : runs) {
    if (!run->curve.empty()) end = std::max(end, SpentAt(run->curve.back(), measure));
  }
  return end;
}

Band AccuracyBand(const std::vector<const RunOutcome*>& runs, Claim::Measure measure, double step) {
  CHECK_GT(step, 0);
  Band band;
  const bool curves = !runs.empty() && std::all_of(runs.begin(), runs.end(), [](const auto* run) {
    return !run->curve.empty();
  });
  if (!curves) return band;
  double begin = 0;  // of the latest first point
  for (const RunOutcome* run : runs) begin = std::max(begin, SpentAt(run->curve.front(), measure));
  const double end = CurveEnd(runs, measure);
  for (size_t i = 0; static_cast<double>(i) * step < end + step; ++i) {
    const double at = static_cast<double>(i) * step;
    if (at < begin) continue;
    std::vector<double> values;
    values.reserve(runs.size());
    for (const RunOutcome* run : runs) values.push_back(AccuracyAt(*run, measure, at));
    band.at.push_back(at);
    band.low.push_back(*std::min_element(values.begin(), values.end()));
    band.high.push_back(*std::max_element(values.begin(), values.end()));
    band.median.push_back(Median(std::move(values)));
  }
  return band;
}

}  // namespace soapstone::experiment
