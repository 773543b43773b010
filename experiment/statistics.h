// Statistics of repeated runs: medians, bootstrap intervals, what a target cost, and paired ratios
// of costs. Functions of numbers; no text. Runs that never reach the target stay in every number:
// their cost is known to be above what they spent.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "experiment/run.h"
#include "experiment/spec.pb.h"

namespace soapstone::experiment {

// The middle value; of an even number the mean of the two middle ones. NaN of none. Infinite values
// are ordered like others.
double Median(std::vector<double> values);

// A median with its 95% interval; both ends NaN where fewer than two values are known.
struct Estimate {
  double median = 0, low = 0, high = 0;
  size_t count = 0;
};

// Percentile bootstrap (Efron, "Bootstrap methods", Annals of Statistics 1979): 2.5% and 97.5% of
// the medians of 4,000 resamples, drawn by counter from `seed`.
Estimate BootstrapMedian(absl::Span<const double> values, uint64_t seed);

// What a run spent until its held-out accuracy reached a target.
struct Cost {
  bool reached = false;
  double value = 0;  // not reached: all that it spent; the cost is above it
  friend bool operator==(const Cost&, const Cost&) = default;
};
// Linear between the first point at or above the target and the one before. A run without a curve
// reached it, if at all, at its end. Of rates: the whole run's time, which ends with the same
// number of iterations whatever the policy; the ratio of two is that of the rates.
Cost CostToTarget(const RunOutcome& outcome, double target, Claim::Measure measure);

// Of costs: infinite where the target was not reached.
double ValueOf(const Cost& cost);

// What is known of than / faster, by how much `faster` is ahead, over pairs of runs of one seed.
struct RatioEstimate {
  Estimate at_least;  // each pair by the least its ratio can be
  Estimate at_most;   // by the most; differs where a run did not reach the target
  // The interval that holds the ratio whatever the unknown costs are.
  double low() const { return at_least.low; }
  double high() const { return at_most.high; }
};
// REQUIRES: as many of one as of the other, in the order of the seeds.
RatioEstimate PairedRatio(absl::Span<const Cost> faster, absl::Span<const Cost> than,
                          uint64_t seed);

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
