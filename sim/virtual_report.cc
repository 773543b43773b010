// What is written about a virtual run: the table and the timeline of virtual_cluster.h.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sim/virtual_cluster.h"

namespace soapstone::sim {

uint64_t VirtualResult::reads() const {
  uint64_t reads = 0;
  for (const uint64_t count : read_lags) reads += count;
  return reads;
}

Clock VirtualResult::lag_at_quantile(double q) const {
  const double wanted = q * static_cast<double>(reads());
  uint64_t seen = 0;
  for (size_t lag = 0; lag < read_lags.size(); ++lag) {
    seen += read_lags[lag];
    if (static_cast<double>(seen) >= wanted) return static_cast<Clock>(lag);
  }
  return 0;
}

std::string ToTable(const VirtualResult& result) {
  const auto line = [](const char* name, const std::string& value) {
    return absl::StrFormat("%-22s %s\n", name, value);
  };
  const auto [low, high] = std::minmax_element(result.clocks.begin(), result.clocks.end());
  std::string table;
  table += line("policy", absl::StrCat(result.policy, " (", result.guarantee, ")"));
  table += line("stragglers", result.stragglers);
  table += line("workers", absl::StrCat(result.clocks.size()));
  table += line("virtual time", absl::StrFormat("%.1f iterations", result.duration));
  table += line("rate", absl::StrFormat("%.3f iterations a worker and time unit", result.rate));
  if (low != result.clocks.end()) {
    table += line("clocks", absl::StrCat(*low, " to ", *high));
  }
  for (const std::string& news : result.news) table += line("", news);
  table += line("blocked", absl::StrFormat("%.1f %%", 100 * result.blocked_fraction));
  if (result.failures > 0) {
    table += line("failures", absl::StrFormat("%d, down for %.1f iterations in all",
                                              result.failures, result.down));
  }
  table +=
      line("read lag", absl::StrFormat("median %d, 99%% %d, greatest %d (%d reads)",
                                       result.lag_at_quantile(0.5), result.lag_at_quantile(0.99),
                                       result.lag_at_quantile(1), result.reads()));
  table += line("clock gap, greatest", absl::StrCat(result.clock_gap_max));
  table += line("violations", result.violation.has_value()
                                  ? absl::StrCat(result.violations, ", first: ", *result.violation)
                                  : "0");
  table += line("messages", absl::StrFormat("%d, %.1f MB", result.messages,
                                            static_cast<double>(result.bytes) / 1e6));
  table +=
      line("events",
           result.wall_seconds > 0
               ? absl::StrFormat("%d in %.2f s, %.0f a second", result.events, result.wall_seconds,
                                 static_cast<double>(result.events) / result.wall_seconds)
               : absl::StrCat(result.events));
  return table;
}

// Trace Event Format, complete events ("ph":"X"), times in microseconds.
std::string TimelineJson(const VirtualResult& result) {
  std::string json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  const char* separator = "";
  std::vector<Nanos> last(result.clocks.size(), 0);
  const auto add = [&](uint32_t worker, const std::string& name, Nanos begin, Nanos end) {
    absl::StrAppendFormat(
        &json, "%s{\"name\":\"%s\",\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f}",
        separator, name, worker, static_cast<double>(begin) / 1000,
        static_cast<double>(end - begin) / 1000);
    separator = ",\n";
  };
  for (uint32_t w = 0; w < last.size(); ++w) {
    absl::StrAppendFormat(&json,
                          "%s{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,"
                          "\"args\":{\"name\":\"worker %d\"}}",
                          separator, w, w);
    separator = ",\n";
  }
  for (const Span& span : result.spans) {
    if (span.begin > last[span.worker]) add(span.worker, "blocked", last[span.worker], span.begin);
    add(span.worker, absl::StrCat("compute ", span.clock), span.begin, span.end);
    last[span.worker] = span.end;
  }
  json += "\n]}\n";
  return json;
}

}  // namespace soapstone::sim
