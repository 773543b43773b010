#include "scheduler/job_progress.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "scheduler/spoken.h"

namespace soapstone::scheduler {
namespace {

// Whether the worker did anything between two reports.
bool HasMoved(const wire::Progress& before, const wire::Progress& now) {
  return before.clock != now.clock || before.samples != now.samples ||
         before.pushed_bytes != now.pushed_bytes || before.pulled_bytes != now.pulled_bytes ||
         before.compute_ns != now.compute_ns;
}

}  // namespace

void JobProgress::Record(Nanos now, WorkerId worker, const wire::Progress& report) {
  wire::Progress& all = workers_[worker];
  const wire::Progress before = std::exchange(all, report);
  if (const auto former = former_.find(worker); former != former_.end()) all.Add(former->second);
  if (HasMoved(before, all)) moved_at_ = now;
}

void JobProgress::Succeed(WorkerId worker) {
  if (const auto before = workers_.find(worker); before != workers_.end()) {
    former_[worker] = before->second;
  }
}

Clock JobProgress::ClockOf(WorkerId worker) const {
  const auto progress = workers_.find(worker);
  return progress == workers_.end() ? 0 : progress->second.clock;
}

std::string JobProgress::AllWait(const Members& members) const {
  std::vector<std::string> waits;
  for (const wire::Member& member : members.roster().workers) {
    if (members.IsDone(member.worker)) continue;
    const auto progress = workers_.find(member.worker);
    if (progress == workers_.end() || !progress->second.waiting.has_value()) return "";
    waits.push_back(absl::StrCat(Spoken(wire::Address::Of(member.worker)), " has waited ",
                                 wire::ToString(*progress->second.waiting)));
  }
  return absl::StrJoin(waits, "; ");
}

bool JobProgress::RecordWork(wire::Address server, const wire::SlowWork* work) {
  if (work == nullptr) {
    slow_work_.erase(server);
    return false;
  }
  wire::SlowWork& known = slow_work_[server];
  const bool forward = work->done_bytes > known.done_bytes;
  known = *work;
  return forward;
}

std::string JobProgress::WorkText(bool saving) const {
  std::vector<std::string> parts;
  for (const auto& [node, work] : slow_work_) {
    const std::string doing =
        absl::StrCat(Spoken(node), saving ? " saves the model" : " makes its parameters");
    // A table's bytes are not known before its rows are together.
    parts.push_back(work.total_bytes == 0
                        ? doing
                        : absl::StrFormat("%s: %d%% of %.1f MB", doing,
                                          100 * work.done_bytes / work.total_bytes,
                                          static_cast<double>(work.total_bytes) / 1e6));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace soapstone::scheduler
