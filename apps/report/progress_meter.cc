#include "apps/report/progress_meter.h"

#include <algorithm>
#include <cmath>

namespace soapstone::apps {
namespace {

// Reads by lag between two readings: mean and maximum.
void LagsSince(const std::vector<uint64_t>& before, const std::vector<uint64_t>& now,
               ProgressReport* report) {
  uint64_t reads = 0;
  uint64_t weighted = 0;
  for (size_t lag = 0; lag < now.size(); ++lag) {
    const uint64_t earlier = lag < before.size() ? before[lag] : 0;
    if (now[lag] <= earlier) continue;
    reads += now[lag] - earlier;
    weighted += lag * (now[lag] - earlier);
    report->lag_max = lag;
  }
  if (reads > 0) report->lag_mean = static_cast<double>(weighted) / static_cast<double>(reads);
}

}  // namespace

wire::Progress SumOf(const ProgressByWorker& progress) {
  wire::Progress sum;
  for (const auto& [worker, p] : progress) sum.Add(p);
  return sum;
}

ProgressReport ProgressMeter::Take(Nanos now, const ProgressByWorker& progress,
                                   const wire::Roster& roster) {
  Clock slowest = kClockMax;
  for (const wire::Member& member : roster.workers) {
    const auto it = progress.find(member.worker);
    // What it said before its start is of no step.
    const Clock said = it == progress.end() ? member.start : it->second.clock;
    slowest = std::min(slowest, std::max(said, member.start));
  }
  if (slowest == kClockMax) slowest = 0;
  readings_.push_back({.at = now, .clock = slowest, .sum = SumOf(progress)});
  history_.Take(readings_.back().sum.samples, readings_.back().sum.loss_sum);
  while (readings_.size() > 2 && readings_[1].at <= now - kWindow) readings_.pop_front();
  const Reading& first = readings_.front();
  const Reading& last = readings_.back();
  const double seconds = static_cast<double>(last.at - first.at) / static_cast<double>(kSecond);

  ProgressReport report;
  report.clock = slowest;
  report.clocks = plan_.clocks;
  report.epochs = plan_.epochs;
  report.epoch = static_cast<uint32_t>(
      std::min<Clock>(plan_.epochs, slowest / std::max<Clock>(1, plan_.clocks_per_epoch) + 1));
  report.samples = last.sum.samples;
  report.workers = static_cast<uint32_t>(roster.workers.size());
  const uint64_t fresh = last.sum.samples - std::min(first.sum.samples, last.sum.samples);
  if (fresh > 0) {
    last_loss_ = MeanLoss(first.sum.loss_sum, last.sum.loss_sum, fresh).value_or(last_loss_);
  }
  report.loss = last_loss_;
  if (plan_.language_model && last.sum.samples > 0) report.perplexity = std::exp(last_loss_);
  if (seconds > 0) report.samples_per_s = static_cast<double>(fresh) / seconds;
  LagsSince(first.sum.read_lags, last.sum.read_lags, &report);
  const Clock advance = last.clock - first.clock;
  report.eta_s = advance > 0 ? static_cast<double>(plan_.clocks - last.clock) * seconds /
                                   static_cast<double>(advance)
                             : -1;
  return report;
}

}  // namespace soapstone::apps
