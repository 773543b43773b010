// Statistics of repeated runs: medians and their intervals, what a target cost, paired ratios of
// costs, and how likely those are by chance. Functions of numbers; no text. Runs that never reach
// the target stay in every number: their cost is known to be above what they spent.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "experiment/run.h"
#include "experiment/spec.pb.h"

namespace soapstone::experiment {

// The middle value; of an even number the mean of the two middle ones. NaN of none. Infinite values
// are ordered like others, NaN after them.
double Median(std::vector<double> values);

// Values from which a 95% interval exists: of fewer even the range covers less, 1 - 2^(1-n).
inline constexpr size_t kIntervalMin = 6;

// A median, and how sure it is: the 95% interval of the median with kIntervalMin values or more, of
// fewer their range, from the least to the greatest. Both ends NaN of fewer than two values.
struct Estimate {
  double median = 0, low = 0, high = 0;
  size_t count = 0;
  bool is_interval() const { return count >= kIntervalMin; }
};

// By order statistics (H. A. David and H. N. Nagaraja, "Order Statistics", 3rd edition, 2003,
// section 7.1), which cover 95% whatever the distribution. Percentile, BCa and t bootstraps of the
// median, and interpolated order statistics, cover as little as 87, 87, 46 and 90% of draws of 6 to
// 20 values (docs/experiments.md; statistics_test.cc simulates what is printed). The same values
// give the same interval. NaN is taken as greater than every number.
Estimate MedianEstimate(std::vector<double> values);

// How probable it is, if what `differences` are of is as likely to be below 0 as above, that their
// sum is as far from 0 as this: the share of all 2^n ways of giving them signs. Two-sided; the
// least value is 2^(1-n). 1 of none, and where one is not finite. Exact sign flips (R. A. Fisher,
// "The Design of Experiments", 1935, section 21) up to kFlipsMax values; the sign test above, which
// is as valid and less sharp. For a positive sum it falls with every difference that grows: what is
// only known to be at least so much may be put in.
inline constexpr size_t kFlipsMax = 22;
double SignFlipP(absl::Span<const double> differences);

// p of each of several hypotheses, corrected for their number: the probability that any one of
// those that hold is refused stays below the level (S. Holm, "A simple sequentially rejective
// multiple test procedure", Scandinavian Journal of Statistics 6, 1979).
std::vector<double> Holm(absl::Span<const double> p);

inline constexpr double kLevel = 0.05;
// The least number of seeds with which `claims` claims can all be shown: Holm's first p must be
// able to come below kLevel / claims, and 2^(1-n) is the least there is. Never below kIntervalMin.
size_t SeedsNeeded(size_t claims);

// What a run spent until its held-out accuracy reached a target.
struct Cost {
  bool reached = false;
  double value = 0;  // not reached: all that it spent; the cost is above it
  friend bool operator==(const Cost&, const Cost&) = default;
};
// As SpentUntil of curve.h: once the accuracy holds. A run without a curve reached it, if at all,
// at its end. Of rates: the whole run's time, which ends with the same number of iterations
// whatever the policy; the ratio of two is that of the rates.
Cost CostToTarget(const RunOutcome& outcome, double target, Claim::Measure measure);

// Of costs: infinite where the target was not reached.
double ValueOf(const Cost& cost);

// What is known of than / faster, by how much `faster` is ahead, over pairs of runs of one seed.
struct RatioEstimate {
  std::vector<double> least;  // of each pair the least its ratio can be
  std::vector<double> most;   // the most; differs where a run did not reach the target
  Estimate at_least, at_most;
  size_t unknown = 0;  // pairs of which neither reached it: the ratio may be anything
  // The interval that holds the ratio whatever the unknown costs are.
  double low() const { return at_least.low; }
  double high() const { return at_most.high; }
};
// REQUIRES: as many of one as of the other, in the order of the seeds.
RatioEstimate PairedRatio(absl::Span<const Cost> faster, absl::Span<const Cost> than);

// Median and range of accuracy over runs, at multiples of `step` of time or bytes from where all
// have been evaluated; a run that has ended keeps its last accuracy. Empty of no runs or of runs
// without curves.
struct Band {
  std::vector<double> at;  // as many as in the others
  std::vector<double> median, low, high;
};
Band AccuracyBand(const std::vector<const RunOutcome*>& runs, Claim::Measure measure, double step);
// The greatest time or bytes on any of the runs' curves.
double CurveEnd(const std::vector<const RunOutcome*>& runs, Claim::Measure measure);

}  // namespace soapstone::experiment
