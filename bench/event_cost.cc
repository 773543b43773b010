#include "bench/event_cost.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/steady_clock.h"
#include "observe/timeline/event_file.h"

namespace soapstone::bench {
namespace {

constexpr uint64_t kAtOnce = 1'000'000;

// ns an event: the median.
double Median(uint32_t repeats, double seconds, const std::function<void(uint64_t)>& write) {
  std::vector<double> each;
  for (uint32_t i = 0; i < repeats; ++i) {
    const Nanos begin = SteadyNow().nanos();
    Nanos took = 0;
    uint64_t events = 0;
    while (static_cast<double>(took) < seconds * static_cast<double>(kSecond)) {
      write(kAtOnce);
      events += kAtOnce;
      took = SteadyNow().nanos() - begin;
    }
    each.push_back(static_cast<double>(took) / static_cast<double>(events));
  }
  std::sort(each.begin(), each.end());
  return each[each.size() / 2];
}

// The compiler must not know that there is none, nor put the calls together.
void WriteEvents(timeline::EventFile* const* file, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    timeline::EventFile* events = *file;
    asm volatile("" : "+r"(events) : : "memory");
    if (events == nullptr) continue;
    const auto at = static_cast<Nanos>(i);
    events->Write({.begin_ns = at,
                   .end_ns = at,
                   .clock = static_cast<Clock>(i),
                   .kind = timeline::EventKind::kForward});
  }
}

}  // namespace

std::string EventTable(uint32_t repeats, double seconds) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / absl::StrCat("events_", getpid())).string();
  timeline::EventFileOptions options = {.folder = folder,
                                        .kind = timeline::ThreadKind::kWorkerDevice};
  auto kept = timeline::EventFile::Make(options);
  options.index = 1;
  options.clocks = {.begin = kClockMax - 1};
  auto other = timeline::EventFile::Make(options);
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (!kept.ok() || !other.ok()) return absl::StrCat(kept.status().message(), "\n");
  timeline::EventFile* const files[] = {nullptr, other->get(), kept->get()};
  const char* const names[] = {"off", "of a clock that is not kept", "kept"};
  std::string table = absl::StrFormat("%-30s %10s\n", "event", "ns");
  for (size_t i = 0; i < std::size(files); ++i) {
    const double ns =
        Median(repeats, seconds, [&](uint64_t count) { WriteEvents(&files[i], count); });
    absl::StrAppendFormat(&table, "%-30s %10.2f\n", names[i], ns);
  }
  const double clock = Median(repeats, seconds, [](uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      Nanos now = SteadyNow().nanos();
      asm volatile("" : "+r"(now));
    }
  });
  absl::StrAppendFormat(&table, "%-30s %10.2f\n", "a look at the steady clock", clock);
  return table;
}

}  // namespace soapstone::bench
