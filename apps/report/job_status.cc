#include "apps/report/job_status.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/plain_text.h"

namespace soapstone::apps {
namespace {

// Cut at a character's beginning.
std::string Cut(std::string line, size_t columns) {
  size_t shown = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(line[i]) & 0xc0) != 0x80;
    if (begins && shown++ == columns) return line.substr(0, i);
  }
  return line;
}

std::string Bar(double share, size_t width, bool utf8) {
  share = std::clamp(share, 0.0, 1.0);
  const auto full = static_cast<size_t>(std::lround(share * static_cast<double>(width)));
  std::string bar;
  for (size_t i = 0; i < width; ++i) bar += i < full ? (utf8 ? "█" : "#") : (utf8 ? "·" : ".");
  return bar;
}

std::string WorkerLine(const WorkerStatus& w, Clock target, bool utf8) {
  const double total = w.times.compute + w.times.injected + w.times.waiting();
  const auto percent = [&](double seconds) {
    return total > 0 ? absl::StrFormat("%3.0f%%", 100 * seconds / total) : "   -";
  };
  const double ms = 1000 * w.step_s;
  const int decimals = ms < 1 ? 3 : ms < 10 ? 2 : 1;
  std::string line = absl::StrFormat(
      "%6d %9d %s %5.1f %4d    %s    %s   %s    %s %8.*f", w.worker, w.clock,
      Bar(target > 0 ? static_cast<double>(w.clock) / static_cast<double>(target) : 0, 12, utf8),
      w.lag_mean, w.lag_max, percent(w.times.compute + w.times.injected), percent(w.times.policy),
      percent(w.times.shard), percent(w.times.network), decimals, ms);
  if (w.slowdown > 0) absl::StrAppendFormat(&line, "  x%.1f", w.slowdown);
  if (!w.host.empty()) absl::StrAppend(&line, "  on ", w.host);
  if (!w.member) absl::StrAppend(&line, "  not a member");
  if (!w.waits.empty()) absl::StrAppend(&line, "  waits ", w.waits);
  return line;
}

// Its readers with their mean lag and, in brackets, the greatest; those that wait with a star.
std::string ShardLine(const ShardLags& s) {
  const wire::ShardReads& reads = s.reads;
  std::string line = absl::StrFormat("%6d %9d %4d of %-4d ", Index(reads.shard), reads.frontier,
                                     reads.parked_count, reads.reader_count);
  for (const wire::ReaderState& r : reads.readers) {
    const double mean =
        r.reads == 0 ? 0 : static_cast<double>(r.lag_sum) / static_cast<double>(r.reads);
    absl::StrAppendFormat(&line, "  %s%d: %.1f (%d)%s", s.groups ? "group " : "", Index(r.worker),
                          mean, r.lag_max, r.parked_ms > 0 ? "*" : "");
  }
  if (reads.folded()) absl::StrAppend(&line, "  of ", reads.reader_count, ", by mean lag");
  return line;
}

void AddTables(const JobStatus& s, bool utf8, std::vector<std::string>* lines) {
  if (!s.workers.empty()) {
    lines->emplace_back();
    lines->push_back(
        "worker     clock              lag mean  max compute policy shard network  ms/step");
  }
  for (const WorkerStatus& worker : s.workers) {
    lines->push_back(WorkerLine(worker, s.progress.clocks, utf8));
  }
  if (!s.shards.empty()) {
    lines->emplace_back();
    lines->push_back(" shard  frontier    waiting    lag of each worker's reads: mean (max)");
  }
  for (const ShardLags& shard : s.shards) lines->push_back(ShardLine(shard));
}

}  // namespace

std::string StatusScreen(const JobStatus& s, size_t columns, bool utf8) {
  std::vector<std::string> lines;
  const std::string who = s.rank < 0 ? s.role : absl::StrCat(s.role, " ", s.rank);
  lines.push_back(absl::StrCat(who, "  ", s.phase,
                               s.ready ? "" : ", not ready: ", s.ready ? "" : s.waits, "  up ",
                               DurationText(s.up_s), "  ", s.version));
  lines.push_back(s.job);
  if (s.role == "scheduler") {
    lines.push_back(absl::StrFormat("servers %d of %d  workers %d of %d  clock %d of %d",
                                    s.servers_there, s.servers, s.progress.workers,
                                    s.workers_wanted, s.progress.clock, s.progress.clocks));
    lines.push_back(ToLine(s.progress));
  }
  lines.push_back(absl::StrCat("security ", s.security));
  if (s.ready && !s.missing.empty()) lines.push_back(absl::StrCat("missing ", s.missing));
  if (s.ended.has_value()) {
    lines.push_back(absl::StrCat("ended with ", s.ended->code, ": ", s.ended->reason));
  }
  AddTables(s, utf8, &lines);
  if (!s.news.empty()) lines.emplace_back();
  for (const std::string& line : s.news) lines.push_back(line);
  for (std::string& line : lines) {
    line = Cut(PlainText(line), columns);
  }
  return absl::StrJoin(lines, "\n") + "\n";
}

}  // namespace soapstone::apps
