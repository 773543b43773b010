#include "experiment/statistics.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace soapstone::experiment {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTail = 0.025;  // outside each end of an interval

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

bool IsLess(double a, double b) { return std::isnan(a) ? false : std::isnan(b) || a < b; }

// P(B <= k) of B binomial with n throws of 1/2.
double BinomialCdf(size_t k, size_t n) {
  double term = std::pow(0.5, static_cast<double>(n)), sum = 0;
  for (size_t i = 0; i <= k; ++i) {
    sum += term;
    term *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return std::min(sum, 1.0);
}

// Of the ways of giving signs to rest[i..], those that bring `sum` to `far` or further from 0.
uint64_t CountFar(absl::Span<const double> rest, size_t i, double sum, double far) {
  if (i == rest.size()) return std::abs(sum) >= far ? 1 : 0;
  return CountFar(rest, i + 1, sum + rest[i], far) + CountFar(rest, i + 1, sum - rest[i], far);
}

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return kNaN;
  std::sort(values.begin(), values.end(), IsLess);
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1 || values[middle] == values[middle - 1]) return values[middle];
  return values[middle - 1] / 2 + values[middle] / 2;
}

// With x_(1) <= .. <= x_(n), [x_(k), x_(n+1-k)] holds the median with probability
//   1 - 2 P(B <= k - 1),  B binomial (n, 1/2)
// or more, whatever the distribution; k is the greatest of which that is 0.95 or more.
Estimate MedianEstimate(std::vector<double> values) {
  const size_t n = values.size();
  std::sort(values.begin(), values.end(), IsLess);
  Estimate estimate{.median = Median(values), .low = kNaN, .high = kNaN, .count = n};
  if (n < 2) return estimate;
  size_t cut = 0;  // k - 1
  while (n >= kIntervalMin && BinomialCdf(cut + 1, n) <= kTail) ++cut;
  estimate.low = values[cut];
  estimate.high = values[n - 1 - cut];
  return estimate;
}

// p = #{s in {-1, 1}^n : |sum_i s_i d_i| >= |sum_i d_i|} / 2^n; the first sign is left at 1, as -s
// comes as far as s.
double SignFlipP(absl::Span<const double> differences) {
  const size_t n = differences.size();
  if (n == 0 || !std::all_of(differences.begin(), differences.end(),
                             [](double d) { return std::isfinite(d); })) {
    return 1;
  }
  if (n > kFlipsMax) {
    const auto above = static_cast<size_t>(
        std::count_if(differences.begin(), differences.end(), [](double d) { return d > 0; }));
    const auto below = static_cast<size_t>(
        std::count_if(differences.begin(), differences.end(), [](double d) { return d < 0; }));
    return std::min(1.0, 2 * BinomialCdf(n - std::max(above, below), n));
  }
  double sum = 0, size = 0;
  for (const double d : differences) {
    sum += d;
    size += std::abs(d);
  }
  const double far = std::abs(sum) - 1e-12 * size;  // sums in another order round otherwise
  const uint64_t hits = CountFar(differences, 1, differences[0], far);
  return static_cast<double>(hits) / std::pow(2.0, static_cast<double>(n - 1));
}

// With p_(1) <= .. <= p_(m):  corrected p_(i) = max over j <= i of min(1, (m - j + 1) p_(j))
std::vector<double> Holm(absl::Span<const double> p) {
  std::vector<size_t> order(p.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] < p[b]; });
  std::vector<double> corrected(p.size());
  double greatest = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    greatest = std::max(greatest, std::min(1.0, static_cast<double>(p.size() - i) * p[order[i]]));
    corrected[order[i]] = greatest;
  }
  return corrected;
}

// 2^(1-n) m <= 0.05, which is n >= 1 + log2(20 m)
size_t SeedsNeeded(size_t claims) {
  size_t seeds = kIntervalMin;
  while (std::pow(2.0, 1 - static_cast<double>(seeds)) * static_cast<double>(claims) > kLevel) {
    ++seeds;
  }
  return seeds;
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
//   (0, inf)   neither did
RatioEstimate PairedRatio(absl::Span<const Cost> faster, absl::Span<const Cost> than) {
  CHECK_EQ(faster.size(), than.size());
  RatioEstimate estimate;
  for (size_t i = 0; i < faster.size(); ++i) {
    const double ratio =
        than[i].value == faster[i].value ? 1 : than[i].value / faster[i].value;  // also of 0 and 0
    estimate.least.push_back(faster[i].reached ? ratio : 0);
    estimate.most.push_back(than[i].reached ? ratio : kInfinity);
    if (!faster[i].reached && !than[i].reached) ++estimate.unknown;
  }
  estimate.at_least = MedianEstimate(estimate.least);
  estimate.at_most = MedianEstimate(estimate.most);
  return estimate;
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
