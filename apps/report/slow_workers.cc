#include "apps/report/slow_workers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace soapstone::apps {
namespace {

// A worker's own time: t = compute + injected + (blocked − parked − queued).
Nanos OwnTime(const wire::Progress& p) {
  return p.compute_ns + p.injected_ns + (p.blocked_ns - p.parked_ns - p.queued_ns);
}

std::string Millis(double seconds) {
  return absl::StrFormat("%.*f ms", seconds < 0.01 ? 1 : 0, 1000 * seconds);
}

}  // namespace

bool SlowWorkers::Add(Nanos now, const wire::Progress& progress, Samples* samples) {
  const Sample sample = {now, progress.clock, OwnTime(progress),
                         progress.compute_ns + progress.injected_ns};
  if (!samples->empty()) {
    if (sample.clock == samples->back().clock) return false;
    if (sample.clock < samples->back().clock) {
      samples->clear();  // another process has the rank
    }
  }
  samples->push_back(sample);
  const auto covers = [&](const Sample& from) {
    return now - from.at >= kWindow && sample.clock - from.clock >= kClocksMin;
  };
  while (samples->size() > 2 && covers((*samples)[1])) samples->pop_front();
  return true;
}

void SlowWorkers::Measure() {
  paces_.clear();
  std::vector<double> steps;
  for (const auto& [worker, samples] : samples_) {
    const Sample& first = samples.front();
    const Sample& last = samples.back();
    const Clock clocks = last.clock - first.clock;
    const Nanos own = last.own - first.own;
    if (last.at - first.at < kWindow || clocks < kClocksMin || own <= 0) continue;
    Pace pace;
    pace.step_s = static_cast<double>(own) / kSecond / static_cast<double>(clocks);
    pace.compute = static_cast<double>(last.computed - first.computed) / static_cast<double>(own);
    paces_[worker] = pace;
    steps.push_back(pace.step_s);
  }
  if (steps.size() < 2) return;
  const auto median = steps.begin() + static_cast<ptrdiff_t>((steps.size() - 1) / 2);
  std::nth_element(steps.begin(), median, steps.end());
  for (auto& [worker, pace] : paces_) pace.slowdown = pace.step_s / *median;
}

std::vector<std::string> SlowWorkers::Take(Nanos now, Nanos since, const ProgressByWorker& progress,
                                           const wire::Roster& roster) {
  std::vector<std::string> lines;
  if (now - looked_ < kEvery) return lines;
  looked_ = now;
  std::map<WorkerId, Samples> before = std::exchange(samples_, {});
  std::set<WorkerId> came_on;
  for (const wire::Member& member : roster.workers) {
    const auto it = progress.find(member.worker);
    if (it == progress.end()) continue;
    Samples& samples = samples_[member.worker] = std::move(before[member.worker]);
    if (Add(now, it->second, &samples)) came_on.insert(member.worker);
  }
  std::erase_if(verdicts_, [&](const auto& v) { return !samples_.contains(v.first); });
  Measure();
  for (const auto& [worker, pace] : paces_) {
    if (pace.slowdown == 0 || !came_on.contains(worker)) continue;
    if (std::string line = Judge(worker, pace, since); !line.empty()) {
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

std::string SlowWorkers::Judge(WorkerId worker, const Pace& pace, Nanos since) {
  Verdict& verdict = verdicts_[worker];
  const bool otherwise = verdict.slow ? pace.slowdown < kSlowNoMore : pace.slowdown > kSlow;
  if (otherwise && verdict.against++ == 0) verdict.since = samples_.at(worker).front().at;
  if (!otherwise) verdict.against = 0;
  if (verdict.against < 2) return "";
  verdict.against = 0;
  verdict.slow = !verdict.slow;
  const double median = pace.step_s / pace.slowdown;
  if (!verdict.slow) {
    return absl::StrCat("worker ", Index(worker), " is slow no more: ", Millis(pace.step_s),
                        " a step, median ", Millis(median));
  }
  return absl::StrCat("worker ", Index(worker), " is slow: ", Millis(pace.step_s),
                      " a step, median ", Millis(median), ", since ",
                      DurationText(static_cast<double>(verdict.since - since) / kSecond),
                      "; compute ", std::lround(100 * pace.compute), "%");
}

}  // namespace soapstone::apps
