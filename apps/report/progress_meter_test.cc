#include "apps/report/progress_meter.h"

#include <gtest/gtest.h>

#include <cmath>

namespace soapstone::apps {
namespace {

wire::Roster TwoWorkers() {
  wire::Roster roster;
  roster.workers = {{.worker = WorkerId{0}}, {.worker = WorkerId{1}}};
  roster.worker_count = 2;
  return roster;
}

TEST(ProgressMeter, RatesAreOfTheWindow) {
  ProgressMeter meter({.clocks = 100, .clocks_per_epoch = 10, .epochs = 10});
  ProgressByWorker progress;
  progress[WorkerId{0}] = {.clock = 10, .samples = 1000, .loss_sum = 1000, .read_lags = {10}};
  progress[WorkerId{1}] = {.clock = 12, .samples = 1200, .loss_sum = 1200, .read_lags = {10}};
  meter.Take(0, progress, TwoWorkers());
  progress[WorkerId{0}] = {.clock = 20, .samples = 2000, .loss_sum = 1500, .read_lags = {15, 0, 5}};
  progress[WorkerId{1}] = {.clock = 22, .samples = 2200, .loss_sum = 1700, .read_lags = {20}};
  const ProgressReport report = meter.Take(kSecond, progress, TwoWorkers());
  EXPECT_EQ(report.clock, 20);
  EXPECT_EQ(report.epoch, 3u);
  EXPECT_EQ(report.samples, 4200u);
  EXPECT_DOUBLE_EQ(report.samples_per_s, 2000);
  EXPECT_DOUBLE_EQ(report.loss, 0.5);
  EXPECT_EQ(report.lag_max, 2u);
  EXPECT_DOUBLE_EQ(report.lag_mean, 0.5);
  EXPECT_DOUBLE_EQ(report.eta_s, 8);
}

TEST(ProgressMeter, ALanguageModelHasAPerplexity) {
  ProgressByWorker progress;
  progress[WorkerId{0}] = {.samples = 10, .loss_sum = 20};
  ProgressMeter meter({.language_model = true});
  EXPECT_EQ(meter.Take(0, {}, TwoWorkers()).perplexity, 0);
  EXPECT_DOUBLE_EQ(meter.Take(kSecond, progress, TwoWorkers()).perplexity, std::exp(2.0));
  EXPECT_EQ(meter.losses(), (std::vector<LossPoint>{{10, 2}}));
  EXPECT_EQ(ProgressMeter({}).Take(0, progress, TwoWorkers()).perplexity, 0);
}

TEST(ProgressMeter, NothingKnownYet) {
  ProgressMeter meter({.clocks = 100, .clocks_per_epoch = 10, .epochs = 10});
  const ProgressReport report = meter.Take(0, {}, TwoWorkers());
  EXPECT_EQ(report.epoch, 1u);
  EXPECT_LT(report.eta_s, 0);
  EXPECT_EQ(report.workers, 2u);
}

TEST(ProgressMeter, OldReadingsAreForgotten) {
  ProgressMeter meter({.clocks = 1000, .clocks_per_epoch = 10, .epochs = 100});
  ProgressByWorker progress;
  ProgressReport report;
  for (int half_seconds = 0; half_seconds <= 20; ++half_seconds) {
    progress[WorkerId{0}].samples += half_seconds < 10 ? 50 : 500;
    report = meter.Take(half_seconds * kSecond / 2, progress, TwoWorkers());
  }
  EXPECT_DOUBLE_EQ(report.samples_per_s, 1000);
}

TEST(SumOf, AddsCountersAndHistograms) {
  ProgressByWorker progress;
  progress[WorkerId{0}] = {.pushed_bytes = 1, .blocked_ns = 5, .read_lags = {1, 2}};
  progress[WorkerId{1}] = {.pushed_bytes = 2, .blocked_ns = 6, .read_lags = {1, 2, 3}};
  const wire::Progress sum = SumOf(progress);
  EXPECT_EQ(sum.pushed_bytes, 3u);
  EXPECT_EQ(sum.blocked_ns, 11);
  EXPECT_EQ(sum.read_lags, (std::vector<uint64_t>{2, 4, 3}));
}

}  // namespace
}  // namespace soapstone::apps
