#include "apps/report.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace soapstone {

// {"max": 40, "counts": [[0, 12], [1, 3], [32, 1]]}: by the least value of each bucket that is not
// empty.
static void to_json(nlohmann::json& object, const Histogram& histogram) {
  auto counts = nlohmann::json::array();
  for (size_t i = 0; i < Histogram::kBuckets; ++i) {
    if (histogram.CountIn(i) > 0) counts.push_back({Histogram::First(i), histogram.CountIn(i)});
  }
  object = {{"max", histogram.max()}, {"counts", std::move(counts)}};
}
static void from_json(const nlohmann::json& object, Histogram& histogram) {
  histogram = {};
  for (const auto& [value, times] :
       object.at("counts").get<std::vector<std::pair<uint64_t, uint64_t>>>()) {
    histogram.Add(value, times);
  }
  histogram.Add(object.at("max").get<uint64_t>(), 0);
}

}  // namespace soapstone

namespace soapstone::apps {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Listening, endpoint)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(News, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProgressReport, epoch, epochs, clock, clocks, samples,
                                   samples_per_s, loss, lag_max, lag_mean, eta_s, workers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ResultReport, code, reason, job, guarantee, test_samples,
                                   test_accuracy, test_loss, seconds, samples, samples_per_s,
                                   train_loss, pushed_bytes, pulled_bytes, read_lags, blocked_s,
                                   compute_s, injected_s, workers, rejects, malformed, sha256,
                                   model_path)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LedgerRow, worker, shard, read_lags, stalenesses, violations)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeReport, name, sent_bytes, received_bytes, malformed, rejects,
                                   duplicates, ledger)

namespace {

using Json = nlohmann::json;

constexpr size_t kLagsApart = 8;       // lags below have an entry each
constexpr size_t kLagEntriesMax = 64;  // of a worker's histogram: the last stands for the rest

constexpr const char* kEventNames[] = {"listening", "news", "progress", "result", "node"};

double Percent(uint64_t part, uint64_t whole) {
  return 100 * static_cast<double>(part) / static_cast<double>(whole);
}

// The alternative of Report that `event` names, read from `object`. Throws as nlohmann does.
template <size_t I = 0>
absl::StatusOr<Report> ReadAs(const std::string& event, const Json& object) {
  if constexpr (I == std::variant_size_v<Report>) {
    return absl::InvalidArgumentError(absl::StrCat("not a report: no event \"", event, "\""));
  } else {
    if (event != kEventNames[I]) return ReadAs<I + 1>(event, object);
    return Report(object.get<std::variant_alternative_t<I, Report>>());
  }
}

void AddRow(const char* name, const std::string& value, std::string* table) {
  absl::StrAppend(table, absl::StrFormat("  %-22s %s\n", name, value));
}

// What nodes add up to, without their ledgers.
NodeReport Sum(const std::vector<NodeReport>& nodes) {
  NodeReport sum;
  for (const NodeReport& node : nodes) {
    sum.sent_bytes += node.sent_bytes;
    sum.malformed += node.malformed;
    sum.rejects += node.rejects;
    sum.duplicates += node.duplicates;
  }
  return sum;
}

void AddNodeRows(const ResultReport& result, const std::vector<NodeReport>& nodes,
                 std::string* table) {
  const NodeReport sum = Sum(nodes);
  const LedgerRow ledger = TotalOf(nodes);
  if (const uint64_t reads = ledger.read_lags.count(); reads > 0) {
    AddRow("updates by staleness", HistogramText(ledger.stalenesses), table);
    AddRow("guarantee",
           absl::StrCat(result.guarantee, "; broken ", WithCommas(ledger.violations), " times in ",
                        WithCommas(reads), " reads"),
           table);
  }
  const uint64_t payload = result.pushed_bytes + result.pulled_bytes;
  if (sum.sent_bytes > payload) {
    const auto all = static_cast<double>(sum.sent_bytes);
    AddRow("on the wire",
           absl::StrFormat("%s by servers and workers, %.2f%% of it headers and control",
                           Bytes(sum.sent_bytes),
                           100 * static_cast<double>(sum.sent_bytes - payload) / all),
           table);
  }
  AddRow("messages refused",
         absl::StrCat(WithCommas(result.malformed + sum.malformed), " malformed or foreign, ",
                      WithCommas(std::max(sum.rejects, result.rejects)), " by shards, ",
                      WithCommas(sum.duplicates), " duplicates"),
         table);
}

// Values in [first, next) and how often they occurred; next 0: and all above.
struct Range {
  uint64_t first = 0;
  uint64_t next = 0;
  uint64_t times = 0;
};

std::string RangesText(const std::vector<Range>& ranges) {
  uint64_t total = 0;
  for (const Range& range : ranges) total += range.times;
  if (total == 0) return "none";
  std::vector<std::string> parts;
  for (const auto& [first, next, times] : ranges) {
    if (times == 0) continue;
    const std::string range = next == 0           ? absl::StrCat(first, "+")
                              : next == first + 1 ? absl::StrCat(first)
                                                  : absl::StrCat(first, "-", next - 1);
    parts.push_back(absl::StrFormat("%s: %.1f%%", range, Percent(times, total)));
  }
  return absl::StrJoin(parts, "  ");
}

}  // namespace

LedgerRow TotalOf(const std::vector<NodeReport>& nodes) {
  LedgerRow total;
  for (const NodeReport& node : nodes) {
    for (const LedgerRow& row : node.ledger) {
      total.read_lags.Add(row.read_lags);
      total.stalenesses.Add(row.stalenesses);
      total.violations += row.violations;
    }
  }
  return total;
}

std::string ToJson(const Report& report) {
  Json object;
  std::visit([&object](const auto& value) { object = value; }, report);
  object["event"] = kEventNames[report.index()];
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Report> FromJson(const std::string& line) {
  try {  // nlohmann's interface; its exceptions stay here
    const Json object = Json::parse(line);
    return ReadAs(object.at("event").get<std::string>(), object);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("not a report: ", error.what()));
  }
}

std::string WithCommas(uint64_t n) {
  std::string digits = absl::StrCat(n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, ',');
  }
  return digits;
}

std::string Bytes(uint64_t bytes) {
  if (bytes < 10'000) return absl::StrCat(bytes, " B");
  if (bytes < 10'000'000) return absl::StrFormat("%.1f kB", static_cast<double>(bytes) / 1e3);
  if (bytes < uint64_t{10'000'000'000}) {
    return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
  }
  return absl::StrFormat("%.1f GB", static_cast<double>(bytes) / 1e9);
}

std::string LagHistogram(std::vector<uint64_t> counts) {
  for (; counts.size() > kLagEntriesMax; counts.pop_back()) {
    counts[kLagEntriesMax - 1] += counts.back();
  }
  std::vector<Range> ranges;
  for (size_t first = 0; first < counts.size();) {
    const size_t next = std::min(first < kLagsApart ? first + 1 : 2 * first, kLagEntriesMax);
    ranges.push_back({first, next == kLagEntriesMax ? 0 : next});
    for (size_t lag = first; lag < std::min(next, counts.size()); ++lag) {
      ranges.back().times += counts[lag];
    }
    first = next;
  }
  return RangesText(ranges);
}

std::string HistogramText(const Histogram& histogram) {
  std::vector<Range> ranges;
  for (size_t i = 0; i < Histogram::kBuckets; ++i) {
    const uint64_t first = Histogram::First(i);
    const uint64_t next = i + 1 < Histogram::kBuckets ? Histogram::First(i + 1) : 0;
    if (first <= kLagsApart || first >= 2 * kLagsApart) ranges.push_back({first, next});
    ranges.back().next = next;
    ranges.back().times += histogram.CountIn(i);
  }
  return RangesText(ranges);
}

std::string DurationText(double seconds) {
  const auto total = static_cast<int64_t>(std::lround(seconds));
  if (total >= 3600) {
    return absl::StrFormat("%d:%02d:%02d", total / 3600, total / 60 % 60, total % 60);
  }
  return absl::StrFormat("%d:%02d", total / 60, total % 60);
}

std::string ToLine(const ProgressReport& p) {
  return absl::StrFormat(
      "epoch %d/%d  samples/s %s  loss %.4f  lag %.1f (max %d)  workers %d  ETA %s", p.epoch,
      p.epochs, WithCommas(static_cast<uint64_t>(std::max(0.0, p.samples_per_s))), p.loss,
      p.lag_mean, p.lag_max, p.workers, p.eta_s < 0 ? "?" : DurationText(p.eta_s));
}

std::string ToTable(const ResultReport& r, const std::vector<NodeReport>& nodes) {
  std::string table = absl::StrCat("\n", r.job, "\n");
  if (r.test_samples > 0) {
    AddRow("test accuracy",
           absl::StrFormat("%.4f  (loss %.4f, %s held-out samples)", r.test_accuracy, r.test_loss,
                           WithCommas(r.test_samples)),
           &table);
  }
  AddRow("training loss", absl::StrFormat("%.4f", r.train_loss), &table);
  AddRow("time", absl::StrFormat("%.2f s", r.seconds), &table);
  AddRow("samples/s",
         absl::StrCat(WithCommas(static_cast<uint64_t>(r.samples_per_s)), "  (",
                      WithCommas(r.samples), " samples)"),
         &table);
  AddRow("pushed, pulled", absl::StrCat(Bytes(r.pushed_bytes), ", ", Bytes(r.pulled_bytes)),
         &table);
  AddRow("reads by lag", LagHistogram(r.read_lags), &table);
  const double worker_seconds = r.seconds * std::max(1u, r.workers);
  AddRow("waiting for reads",
         absl::StrFormat("%.2f s of %.2f worker seconds (%.1f%%)", r.blocked_s, worker_seconds,
                         worker_seconds > 0 ? 100 * r.blocked_s / worker_seconds : 0),
         &table);
  if (r.injected_s > 0) {
    AddRow("injected delays",
           absl::StrFormat("%.2f s, beside %.2f s of computing", r.injected_s, r.compute_s),
           &table);
  }
  AddNodeRows(r, nodes, &table);
  if (!r.sha256.empty()) AddRow("parameters, sha256", r.sha256, &table);
  if (!r.model_path.empty()) AddRow("model", r.model_path, &table);
  return table;
}

void StdoutReports::Take(const Report& report) {
  if (json_) {
    std::cout << ToJson(report) << std::endl;
  } else if (const auto* news = std::get_if<News>(&report)) {
    std::cout << news->text << std::endl;
  } else if (const auto* progress = std::get_if<ProgressReport>(&report)) {
    std::cout << ToLine(*progress) << std::endl;
  } else if (const auto* result = std::get_if<ResultReport>(&report)) {
    if (result->code == 0) {
      std::cout << ToTable(*result, {}) << std::flush;
    } else {
      std::cout << "ended with exit code " << result->code << ": " << result->reason << std::endl;
    }
  }
}

}  // namespace soapstone::apps
