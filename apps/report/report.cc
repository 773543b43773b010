#include "apps/report/report.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <syncstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/report/result_text.h"

namespace soapstone::apps {
namespace {

constexpr size_t kLagsApart = 8;  // lags below have an entry each
constexpr size_t kBarWidth = 24;
constexpr double kDivergedFactor = 100;  // of the first loss
constexpr size_t kLeftOutApart = 4;      // worker and tensor; all are in the ledger
constexpr size_t kWorkersApart = 8;      // up to so many have a row of times each
constexpr size_t kLagEntriesMax = 64;    // of a worker's histogram: the last stands for the rest

double Percent(uint64_t part, uint64_t whole) {
  return 100 * static_cast<double>(part) / static_cast<double>(whole);
}

void AddRow(const std::string& name, const std::string& value, std::string* table) {
  absl::StrAppend(table, absl::StrFormat("  %-22s %s\n", name, value));
}

// "677.6 MB: push 49.9%  pull 49.9%  ...".
std::string CausesText(const transport::BytesByCause& bytes) {
  const std::pair<const char*, uint64_t> causes[] = {
      {"push", bytes.push},       {"pull", bytes.pull},      {"parcels", bytes.parcels},
      {"blocks", bytes.blocks},   {"model", bytes.model},    {"header", bytes.header},
      {"control", bytes.control}, {"framing", bytes.framing}};
  std::vector<std::string> shares;
  for (const auto& [name, part] : causes) {
    if (part == 0) continue;
    shares.push_back(absl::StrFormat("%s %.2f%%", name, Percent(part, bytes.total())));
  }
  return absl::StrCat(Bytes(bytes.total()), ": ", absl::StrJoin(shares, "  "));
}

std::string SocketsText(const transport::SocketCounts& sockets) {
  const double more =
      static_cast<double>(sockets.taken_bytes) - static_cast<double>(sockets.given_bytes);
  return absl::StrFormat(
      "%s at %d ends of connections, where we count %s (%+.3f%%); %s sent again",
      Bytes(sockets.taken_bytes), sockets.connections, Bytes(sockets.given_bytes),
      100 * more / static_cast<double>(std::max<uint64_t>(1, sockets.given_bytes)),
      Bytes(sockets.resent_bytes));
}

// What nodes add up to, without their ledgers.
NodeReport Sum(const std::vector<NodeReport>& nodes) {
  NodeReport sum;
  for (const NodeReport& node : nodes) {
    sum.sent.Add(node.sent);
    sum.sockets.Add(node.sockets);
    sum.shared_bytes += node.shared_bytes;
    sum.malformed += node.malformed;
    sum.strangers += node.strangers;
    sum.rejects += node.rejects;
    sum.duplicates += node.duplicates;
    sum.left_out += node.left_out;
  }
  return sum;
}

// Who was silent for longest: a node whose loop hangs is counted out by that.
void AddSilence(const std::vector<NodeReport>& nodes, std::string* table) {
  const auto longest = std::max_element(
      nodes.begin(), nodes.end(),
      [](const auto& a, const auto& b) { return a.heartbeat_gap_s < b.heartbeat_gap_s; });
  if (longest == nodes.end() || longest->heartbeat_gap_s == 0) return;
  AddRow("heartbeats",
         absl::StrFormat("greatest gap %.2f s (%s)", longest->heartbeat_gap_s, longest->name),
         table);
}

// What was promised, how often it was broken, and by whom that was found first.
void AddGuarantee(const ResultReport& result, const std::vector<NodeReport>& nodes,
                  std::string* table) {
  const LedgerRow ledger = TotalOf(nodes);
  const std::vector<ViolationRow> violations = ViolationsOf(nodes);
  uint64_t answers = 0;
  for (const NodeReport& node : nodes) answers += node.answers;
  const uint64_t reads = ledger.read_lags.count();
  if (reads == 0 && answers == 0 && violations.empty()) return;
  if (reads > 0) AddRow("updates by staleness", HistogramText(ledger.stalenesses), table);
  AddRow("guarantee",
         absl::StrCat(result.guarantee, "; broken ", WithCommas(CountOf(violations)), " times in ",
                      WithCommas(reads), " reads, ", WithCommas(answers), " answers"),
         table);
  for (const ViolationRow& row : violations) {
    AddRow("broken",
           absl::StrCat(WithCommas(row.times), " times, found by ", row.by, " (", row.kind,
                        "): ", row.first),
           table);
  }
}

void AddNodeRows(const ResultReport& result, const std::vector<NodeReport>& nodes,
                 std::string* table) {
  const NodeReport sum = Sum(nodes);
  AddGuarantee(result, nodes, table);
  if (sum.sent.total() > 0) AddRow("on the wire", CausesText(sum.sent), table);
  if (sum.shared_bytes > 0) {
    AddRow("in shared memory",
           absl::StrFormat("%s of it (%.2f%%)", Bytes(sum.shared_bytes),
                           Percent(sum.shared_bytes, sum.sent.total())),
           table);
  }
  if (sum.sockets.connections > 0) AddRow("by the kernel's count", SocketsText(sum.sockets), table);
  if (sum.left_out > 0) {
    AddRow("left out", absl::StrCat(WithCommas(sum.left_out), " updates, too late for their round"),
           table);
  }
  AddSilence(nodes, table);
  AddRow("messages refused",
         absl::StrCat(WithCommas(result.malformed + sum.malformed), " malformed or foreign, ",
                      WithCommas(std::max(sum.rejects, result.rejects)), " by shards, ",
                      WithCommas(sum.duplicates), " duplicates"),
         table);
  if (const uint64_t strangers = result.strangers + sum.strangers; strangers > 0) {
    AddRow("sent away", absl::StrCat(WithCommas(strangers), " connections of strangers"), table);
  }
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

// "####====-..   compute 48.1%  policy 20.0%  ...", of `seconds`.
std::string TimesText(const WorkerTimes& times, double seconds) {
  struct Part {
    const char* name;
    char mark;
    double share;
  };
  const double rest = seconds - times.compute - times.injected - times.waiting();
  const Part parts[] = {{"compute", '#', times.compute}, {"injected", '+', times.injected},
                        {"policy", '=', times.policy},   {"shard", 's', times.shard},
                        {"network", '-', times.network}, {"other", '.', std::max(rest, 0.0)}};
  std::string bar;
  std::vector<std::string> shares;
  double before = 0;
  for (const Part& part : parts) {
    before += part.share / seconds;
    const auto end = static_cast<size_t>(std::lround(std::min(before, 1.0) * kBarWidth));
    bar.append(end - bar.size(), part.mark);
    if (part.share == 0) continue;
    shares.push_back(absl::StrFormat("%s %.1f%%", part.name, 100 * part.share / seconds));
  }
  return absl::StrCat(bar, std::string(kBarWidth - bar.size(), '.'), "  ",
                      absl::StrJoin(shares, "  "));
}

void AddTimeRows(const ResultReport& r, std::string* table) {
  if (r.times.empty() || r.seconds <= 0) return;
  const WorkerTimes total = TotalOf(r.times);
  const double seconds = r.seconds * static_cast<double>(r.times.size());
  AddRow("waiting for reads",
         absl::StrFormat("%.2f s of %.2f worker seconds (%.1f%%)", total.waiting(), seconds,
                         100 * total.waiting() / seconds),
         table);
  if (total.injected > 0) {
    AddRow("injected delays",
           absl::StrFormat("%.2f s, beside %.2f s of computing", total.injected, total.compute),
           table);
  }
  if (r.times.size() > kWorkersApart) {
    return AddRow("time of all workers", TimesText(total, seconds), table);
  }
  for (const WorkerTimes& times : r.times) {
    AddRow(absl::StrCat("time of worker ", times.worker), TimesText(times, r.seconds), table);
  }
}

// "61.56". What is no finite number was larger than a double holds, whatever JSON made of it.
std::string PerplexityText(double perplexity) {
  if (!std::isfinite(perplexity)) return "above 1e308";
  return absl::StrFormat("%.4g", perplexity);
}

// "0.1430", "4.1200 (perplexity 61.56)".
std::string LossText(double loss, double perplexity) {
  return absl::StrCat(
      absl::StrFormat("%.4f", loss),
      perplexity == 0 ? "" : absl::StrCat(" (perplexity ", PerplexityText(perplexity), ")"));
}

// "█▆▄▂▁▁  2.3026 to 0.1430, runs/1/loss.csv"
void AddLossesRow(const ResultReport& r, const TableOptions& options, std::string* table) {
  if (r.losses.size() < 2) return;
  std::vector<double> losses;
  for (const LossPoint& point : r.losses) losses.push_back(point.loss);
  const double most = *std::max_element(losses.begin(), losses.end());
  const std::string grown =
      most > kDivergedFactor * losses.front()
          ? absl::StrFormat(", %.2g on the way: a smaller learning rate may do better", most)
          : "";
  AddRow("training loss by time",
         absl::StrCat(Sparkline(losses, options.utf8),
                      absl::StrFormat("  %.4f to %.4f", losses.front(), losses.back()), grown,
                      options.losses_path.empty() ? "" : ", ", options.losses_path),
         table);
}

// "clock 1200, accuracy 0.9812  (ckpt/best, 359 held-out samples)"
void AddBestRow(const ResultReport& r, std::string* table) {
  const BestReport& best = r.best;
  if (best.clock == 0) return;
  AddRow(
      r.stopped_early ? "stopped early, best" : "best checkpoint",
      absl::StrFormat("clock %d, %s %.4f  (%s, %s held-out samples)", best.clock,
                      best.by_loss ? "loss" : "accuracy", best.by_loss ? best.loss : best.accuracy,
                      best.path, WithCommas(best.samples)),
      table);
}

// "3 updates that were not finite: 2 of worker 0 by fc1.weight from clock 7, ..."
void AddLeftOutRow(const std::vector<LeftOutRow>& rows, std::string* table) {
  if (rows.empty()) return;
  uint64_t updates = 0;
  std::vector<std::string> parts;
  for (const LeftOutRow& row : rows) {
    updates += row.updates;
    parts.push_back(absl::StrCat(row.updates, " of worker ", row.worker, " by ", row.tensor,
                                 row.updates == 1 ? " at clock " : " from clock ",
                                 row.first_clock));
  }
  if (parts.size() > kLeftOutApart) {
    parts.resize(kLeftOutApart);
    parts.emplace_back("...");
  }
  AddRow("left out", absl::StrCat(LeftOutText(updates), ": ", absl::StrJoin(parts, ", ")), table);
}

}  // namespace

std::string LeftOutText(uint64_t updates) {
  return absl::StrCat(WithCommas(updates), updates == 1 ? " update that was not finite"
                                                        : " updates that were not finite");
}

WorkerTimes TotalOf(const std::vector<WorkerTimes>& times) {
  WorkerTimes total;
  for (const WorkerTimes& worker : times) {
    total.compute += worker.compute;
    total.injected += worker.injected;
    total.policy += worker.policy;
    total.shard += worker.shard;
    total.network += worker.network;
  }
  return total;
}

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

void AddViolations(const consistency::ViolationLog& found, const std::string& by,
                   NodeReport* report) {
  for (const consistency::ViolationRow& row : found.rows()) {
    report->violations.push_back({row, by});
  }
}

std::vector<ViolationRow> ViolationsOf(const std::vector<NodeReport>& nodes) {
  std::vector<ViolationRow> all;
  for (const NodeReport& node : nodes) {
    all.insert(all.end(), node.violations.begin(), node.violations.end());
  }
  return all;
}

uint64_t CountOf(const std::vector<ViolationRow>& violations) {
  uint64_t all = 0;
  for (const ViolationRow& row : violations) all += row.times;
  return all;
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
  const std::string perplexity =
      p.perplexity == 0 ? "" : absl::StrCat("  perplexity ", PerplexityText(p.perplexity));
  return absl::StrFormat(
      "epoch %d/%d  samples/s %s  loss %.4f%s  lag %.1f (max %d)  workers %d  ETA %s", p.epoch,
      p.epochs, WithCommas(static_cast<uint64_t>(std::max(0.0, p.samples_per_s))), p.loss,
      perplexity, p.lag_mean, p.lag_max, p.workers, p.eta_s < 0 ? "?" : DurationText(p.eta_s));
}

std::string TestRows(const ResultReport& r, const TableOptions& options) {
  std::string table;
  if (r.test_samples == 0) return table;
  AddRow("test accuracy",
         absl::StrFormat("%.4f  (loss %s, %s held-out samples)", r.test_accuracy,
                         LossText(r.test_loss, r.test_perplexity), WithCommas(r.test_samples)),
         &table);
  if (r.confusion.empty()) return table;
  AddRow("balanced accuracy", absl::StrFormat("%.4f  (mean over the classes)", r.balanced_accuracy),
         &table);
  if (r.confusion.size() <= kClassesShownMax) {
    AddRow("confusion", "a row a label, a column the class that its samples were taken for",
           &table);
    absl::StrAppend(&table, ConfusionText(r.confusion, r.class_names));
  } else if (!options.confusion_path.empty()) {
    AddRow("confusion", options.confusion_path, &table);
  }
  return table;
}

std::string ToTable(const ResultReport& r, const std::vector<NodeReport>& nodes,
                    const TableOptions& options) {
  std::string table = absl::StrCat("\n", r.job, "\n");
  table += TestRows(r, options);
  AddBestRow(r, &table);
  AddRow("training loss", LossText(r.train_loss, r.train_perplexity), &table);
  AddRow("time", absl::StrFormat("%.2f s", r.seconds), &table);
  AddRow("samples/s",
         absl::StrCat(WithCommas(static_cast<uint64_t>(r.samples_per_s)), "  (",
                      WithCommas(r.samples), " samples)"),
         &table);
  AddRow("pushed, pulled", absl::StrCat(Bytes(r.pushed_bytes), ", ", Bytes(r.pulled_bytes)),
         &table);
  AddRow("reads by lag", LagHistogram(r.read_lags), &table);
  AddTimeRows(r, &table);
  AddLeftOutRow(r.left_out, &table);
  AddNodeRows(r, nodes, &table);
  if (!options.ledger_path.empty()) AddRow("details", options.ledger_path, &table);
  if (!r.sha256.empty()) AddRow("parameters, sha256", r.sha256, &table);
  if (!r.model_path.empty()) AddRow("model", r.model_path, &table);
  AddLossesRow(r, options, &table);
  return table;
}

void JsonReports::Take(const Report& report) {
  std::osyncstream(std::cout) << ToJson(report) << '\n' << std::flush;
}

}  // namespace soapstone::apps
