#include "apps/report/slow_workers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

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

void SlowWorkers::Measure(const Reading& first, const Reading& last) {
  paces_.clear();
  std::vector<double> steps;
  for (const auto& [worker, now] : last.progress) {
    const auto it = first.progress.find(worker);
    if (it == first.progress.end()) continue;
    const wire::Progress& then = it->second;
    const Clock clocks = now.clock - then.clock;
    const Nanos own = OwnTime(now) - OwnTime(then);
    if (clocks < kClocksMin || own <= 0) continue;  // also: another process has the rank
    Pace pace;
    pace.step_s = static_cast<double>(own) / kSecond / static_cast<double>(clocks);
    const Nanos computed = now.compute_ns + now.injected_ns - then.compute_ns - then.injected_ns;
    pace.compute = static_cast<double>(computed) / static_cast<double>(own);
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
  if (!readings_.empty() && now - readings_.back().at < kEvery) return lines;
  Reading& reading = readings_.emplace_back(Reading{.at = now});
  for (const wire::Member& member : roster.workers) {
    const auto it = progress.find(member.worker);
    if (it != progress.end()) reading.progress[member.worker] = it->second;
  }
  while (readings_.size() > 2 && readings_[1].at <= now - kWindow) readings_.pop_front();
  const Reading& first = readings_.front();
  std::erase_if(verdicts_, [&](const auto& v) { return !reading.progress.contains(v.first); });
  if (now - first.at < kWindow) return lines;
  Measure(first, reading);
  for (const auto& [worker, pace] : paces_) {
    if (pace.slowdown == 0) continue;
    Verdict& verdict = verdicts_[worker];
    const bool otherwise = verdict.slow ? pace.slowdown < kSlowNoMore : pace.slowdown > kSlow;
    if (otherwise && verdict.against++ == 0) verdict.since = first.at;
    if (!otherwise) verdict.against = 0;
    if (verdict.against < 2) continue;
    verdict.against = 0;
    verdict.slow = !verdict.slow;
    const double median = pace.step_s / pace.slowdown;
    if (verdict.slow) {
      lines.push_back(
          absl::StrCat("worker ", Index(worker), " is slow: ", Millis(pace.step_s),
                       " a step, median ", Millis(median), ", since ",
                       DurationText(static_cast<double>(verdict.since - since) / kSecond),
                       "; compute ", std::lround(100 * pace.compute), "%"));
    } else {
      lines.push_back(absl::StrCat("worker ", Index(worker), " is slow no more: ",
                                   Millis(pace.step_s), " a step, median ", Millis(median)));
    }
  }
  return lines;
}

}  // namespace soapstone::apps
