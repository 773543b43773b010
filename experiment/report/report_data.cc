#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "experiment/report/claims.h"
#include "experiment/report/honesty.h"
#include "experiment/report/report.h"

namespace soapstone::experiment {
namespace {

using Json = nlohmann::json;

constexpr double kCurveSteps = 240;  // of a chart's width
constexpr size_t kLagsApart = 8;     // lags below have a bar each; from there ranges double
constexpr size_t kLagsRest = 64;     // from here on one bar
constexpr char kBaseline[] = "bsp";

// Infinite and unknown numbers become null.
Json EstimateJson(const Estimate& estimate) {
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  return {{"median", number(estimate.median)},
          {"low", number(estimate.low)},
          {"high", number(estimate.high)}};
}

Json FindingsJson(const std::vector<Finding>& findings) {
  constexpr const char* kStandings[] = {"holds", "marked", "fails"};
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"rule", finding.rule},
                    {"sentence", RuleText(finding.rule)},
                    {"standing", kStandings[static_cast<size_t>(finding.standing)]},
                    {"why", finding.why}});
  }
  return list;
}

std::vector<Finding> Failing(const Results& results, const Scope& scope) {
  std::vector<Finding> findings = CheckRules(results, scope);
  std::erase_if(findings,
                [](const Finding& finding) { return finding.standing != Standing::kFails; });
  return findings;
}

Json LagBars(const std::vector<uint64_t>& lags) {
  Json bars = Json::array();
  double total = 0;
  for (const uint64_t n : lags) total += static_cast<double>(n);
  for (size_t first = 0; first < lags.size();) {
    const size_t next = first < kLagsApart   ? first + 1
                        : first >= kLagsRest ? lags.size()
                                             : 2 * first;
    uint64_t reads = 0;
    for (size_t lag = first; lag < std::min(next, lags.size()); ++lag) reads += lags[lag];
    const std::string label = next == first + 1    ? absl::StrCat(first)
                              : first >= kLagsRest ? absl::StrCat(first, "+")
                                                   : absl::StrCat(first, "-", next - 1);
    bars.push_back({{"lag", label},
                    {"reads", reads},
                    {"share", total > 0 ? static_cast<double>(reads) / total : 0}});
    first = next;
  }
  return bars;
}

double MeanLag(const std::vector<uint64_t>& lags) {
  double total = 0, sum = 0;
  for (size_t lag = 0; lag < lags.size(); ++lag) {
    total += static_cast<double>(lags[lag]);
    sum += static_cast<double>(lag) * static_cast<double>(lags[lag]);
  }
  return total > 0 ? sum / total : 0;
}

// A policy is on the front when no other is at least as good in time, bytes and accuracy, and
// better in one.
bool OnFront(const CellResult& cell, const std::vector<const CellResult*>& others) {
  if (cell.finished.empty() || !std::isfinite(cell.time_s.median)) return false;
  return std::none_of(others.begin(), others.end(), [&](const CellResult* other) {
    if (other->finished.empty()) return false;
    const bool no_worse = other->time_s.median <= cell.time_s.median &&
                          other->bytes.median <= cell.bytes.median &&
                          other->accuracy.median >= cell.accuracy.median;
    const bool better = other->time_s.median < cell.time_s.median ||
                        other->bytes.median < cell.bytes.median ||
                        other->accuracy.median > cell.accuracy.median;
    return no_worse && better;
  });
}

class PageData {
 public:
  explicit PageData(const Results& results)
      : results_(results),
        experiment_(*results.experiment),
        spec_(results.experiment->spec),
        judged_(JudgeClaims(results)) {}

  Json Make() const {
    Json page = {
        {"title", spec_.title()},
        {"about", spec_.about()},
        {"digest", experiment_.digest},
        {"mode", real() ? "real" : "cosim"},
        {"time", real() ? "wall time" : "virtual time"},
        {"finished", results_.finished},
        {"total", results_.total},
        {"tuning_runs", results_.tuning_finished},
        {"spent_s", results_.spent_s},
        {"seeds", experiment_.seeds.size()},
        {"seeds_drawn", experiment_.seeds_drawn},
        {"interval", experiment_.seeds.size() >= kIntervalMin ? "95% intervals" : "ranges"},
        {"runs_digest", experiment_.runs_digest},
        {"torn", results_.registry.torn_lines}};
    if (!real()) {
      page["timing"] = {{"iteration_ms", spec_.iteration_ms()},
                        {"latency_us", spec_.latency_us()},
                        {"bandwidth_mbps", spec_.bandwidth_mbps()}};
    }
    const std::vector<Finding> findings = CheckRules(results_, {});
    const bool held_out = findings[1].standing != Standing::kFails;
    page["accuracy"] = held_out ? "held-out test accuracy" : "accuracy, NOT of held-out samples";
    page["rules"] = FindingsJson(findings);
    page["policies"] = Policies();
    page["claims"] = Claims();
    page["tables"] = Tables();
    page["scaling"] = Scaling();
    page["tuning"] = Tuned();
    return page;
  }

 private:
  bool real() const { return spec_.mode() == ExperimentSpec::real; }
  Json Policies() const;
  Json Claims() const;
  Json Tables() const;
  Json Table(size_t subject, uint32_t workers) const;
  Json Condition(size_t subject, uint32_t workers, size_t straggler) const;
  Json Row(const CellResult& cell) const;
  Json Ratio(const CellResult& cell, const CellResult* baseline) const;
  Json Curves(const std::vector<const CellResult*>& cells, Claim::Measure measure) const;
  Json Scaling() const;
  Json Tuned() const;

  const Results& results_;
  const Experiment& experiment_;
  const ExperimentSpec& spec_;
  const std::vector<JudgedClaim> judged_;
};

Json PageData::Policies() const {
  Json list = Json::array();
  for (const ResolvedPolicy& policy : experiment_.policies) {
    list.push_back({{"spec", policy.name}, {"guarantee", policy.traits.guarantee.ToString()}});
  }
  return list;
}

Json PageData::Claims() const {
  Json list = Json::array();
  for (const JudgedClaim& judged : judged_) {
    list.push_back({{"text", judged.text},
                    {"verdict", VerdictText(judged.verdict)},
                    {"evidence", judged.evidence},
                    {"reasons", FindingsJson(judged.reasons)}});
  }
  return list;
}

Json PageData::Tables() const {
  Json list = Json::array();
  for (size_t subject = 0; subject < experiment_.subjects.size(); ++subject) {
    for (const uint32_t workers : experiment_.workers) list.push_back(Table(subject, workers));
  }
  return list;
}

Json PageData::Table(size_t subject, uint32_t workers) const {
  const ResolvedSubject& resolved = experiment_.subjects[subject];
  const wire::JobConfig job = JobOf(experiment_, subject, 0, {}, workers);
  Json table = {
      {"subject", resolved.name},
      {"model", job.model()},
      {"workers", workers},
      {"shards", job.cluster().servers() * std::max(1u, job.cluster().shards_per_server())},
      {"batch", job.training().batch()},
      {"epochs", job.training().epochs()},
      {"target", resolved.target_accuracy}};
  table["failing"] = FindingsJson(Failing(results_, {.subject = subject, .workers = workers}));
  Json conditions = Json::array();
  for (size_t straggler = 0; straggler < experiment_.stragglers.size(); ++straggler) {
    conditions.push_back(Condition(subject, workers, straggler));
  }
  table["conditions"] = std::move(conditions);
  const std::optional<Cell> alone = OneWorkerCell(experiment_, subject);
  const CellResult* cell = alone.has_value() ? results_.Find(*alone) : nullptr;
  if (cell != nullptr && !cell->finished.empty()) table["one_worker"] = Row(*cell);
  for (const CellResult& any : results_.cells) {
    if (any.cell.subject != subject || any.finished.empty()) continue;
    const Provenance& p = any.finished.front()->provenance;
    table["parameters"] = p.parameters;
    table["train_samples"] = p.train_samples;
    table["test_samples"] = p.test_samples;
    table["arithmetic"] =
        absl::StrCat(p.precision, ", sent ", p.communication, ", codec ", p.codec);
    break;
  }
  return table;
}

Json PageData::Condition(size_t subject, uint32_t workers, size_t straggler) const {
  std::vector<const CellResult*> cells;
  const CellResult* baseline = nullptr;
  for (size_t policy = 0; policy < experiment_.policies.size(); ++policy) {
    const CellResult* cell = results_.Find({subject, policy, straggler, workers});
    if (cell == nullptr) continue;
    cells.push_back(cell);
    if (experiment_.policies[policy].name == kBaseline) baseline = cell;
  }
  Json rows = Json::array();
  for (const CellResult* cell : cells) {
    Json row = Row(*cell);
    row["front"] = OnFront(*cell, cells);
    row["ratio"] = Ratio(*cell, baseline);
    rows.push_back(std::move(row));
  }
  return {
      {"name", experiment_.stragglers[straggler].name()},
      {"model", experiment_.stragglers[straggler].model()},
      {"rows", std::move(rows)},
      {"curves", {{"time", Curves(cells, Claim::time)}, {"bytes", Curves(cells, Claim::bytes)}}}};
}

Json PageData::Row(const CellResult& cell) const {
  Json row = {{"policy", cell.cell.policy},
              {"finished", cell.finished.size()},
              {"not_finite", cell.not_finite},
              {"reached", cell.reached},
              {"accuracy", EstimateJson(cell.accuracy)},
              {"time_s", EstimateJson(cell.time_s)},
              {"bytes", EstimateJson(cell.bytes)},
              {"duration_s", EstimateJson(cell.duration_s)},
              {"total_bytes", EstimateJson(cell.total_bytes)},
              {"violations", cell.violations},
              {"lags", LagBars(cell.read_lags)},
              {"lag_mean", MeanLag(cell.read_lags)},
              {"lag_max", cell.read_lags.empty() ? 0 : cell.read_lags.size() - 1}};
  if (cell.worker_s > 0) {
    const double computing = cell.compute_s / cell.worker_s;
    const double waiting = cell.waiting_s / cell.worker_s;
    row["shares"] = {computing, waiting, std::max(0.0, 1 - computing - waiting)};
  }
  if (cell.candidate.has_value()) {
    const Settings& settings =
        experiment_.subjects[cell.cell.subject].grids[cell.cell.policy].candidates[*cell.candidate];
    row["optimizer"] = settings.optimizer;
    row["schedule"] = settings.schedule;
  }
  if (cell.replicas.has_value()) {
    row["replicas"] = {cell.replicas->min, cell.replicas->median, cell.replicas->max};
  }
  return row;
}

// Of bsp's time to the policy's: null with the rules that withhold it. With a verdict only where a
// claim of the file is about it: how many there are is what the p of a claim is corrected for.
Json PageData::Ratio(const CellResult& cell, const CellResult* baseline) const {
  if (baseline == nullptr || baseline == &cell) return nullptr;
  const auto count =
      std::find(experiment_.workers.begin(), experiment_.workers.end(), cell.cell.workers) -
      experiment_.workers.begin();
  const ResolvedClaim compared = {.faster = cell.cell.policy,
                                  .than = baseline->cell.policy,
                                  .straggler = cell.cell.straggler,
                                  .subject = cell.cell.subject,
                                  .workers = static_cast<size_t>(count)};
  const std::vector<Finding> failing =
      Failing(results_, {.subject = cell.cell.subject,
                         .workers = cell.cell.workers,
                         .policies = {cell.cell.policy, baseline->cell.policy},
                         .comparisons = {compared}});
  if (!failing.empty()) {
    Json rules = Json::array();
    for (const Finding& finding : failing) rules.push_back(finding.rule);
    return {{"withheld", std::move(rules)}};
  }
  const Comparison comparison = Compare(results_, cell, *baseline, Claim::time);
  const RatioText text = TextOf(comparison.ratio, 2);
  Json ratio = {
      {"text", text.ratio},
      {"range", text.range},
      {"accuracy_drop",
       std::isfinite(comparison.accuracy_drop) ? Json(comparison.accuracy_drop) : Json()}};
  for (size_t i = 0; i < experiment_.claims.size(); ++i) {
    const ResolvedClaim& claim = experiment_.claims[i];
    if (claim.of != Claim::time || claim.faster != compared.faster || claim.than != compared.than ||
        claim.straggler != compared.straggler || claim.subject != compared.subject ||
        claim.workers != compared.workers) {
      continue;
    }
    ratio["verdict"] = absl::StrCat("claim ", i + 1, ": ", VerdictText(judged_[i].verdict));
    break;
  }
  return ratio;
}

Json PageData::Curves(const std::vector<const CellResult*>& cells, Claim::Measure measure) const {
  double end = 0;
  for (const CellResult* cell : cells) end = std::max(end, CurveEnd(cell->finished, measure));
  Json series = Json::array();
  Json at = Json::array();
  if (!(end > 0)) return {{"at", std::move(at)}, {"series", std::move(series)}};
  const double step = end / kCurveSteps;
  const auto points = static_cast<size_t>(kCurveSteps) + 1;
  for (size_t i = 0; i < points; ++i) at.push_back(static_cast<double>(i) * step);
  for (const CellResult* cell : cells) {
    const Band band = AccuracyBand(cell->finished, measure, step);
    if (band.at.empty()) continue;
    std::vector<Json> median(points), low(points), high(points);  // null where nothing is known
    for (size_t i = 0; i < band.at.size(); ++i) {
      const auto slot = static_cast<size_t>(std::lround(band.at[i] / step));
      if (slot >= points) break;
      median[slot] = band.median[i];
      low[slot] = band.low[i];
      high[slot] = band.high[i];
    }
    series.push_back(
        {{"policy", cell->cell.policy}, {"median", median}, {"low", low}, {"high", high}});
  }
  return {{"at", std::move(at)}, {"series", std::move(series)}};
}

// Time to the target against the number of workers.
Json PageData::Scaling() const {
  Json list = Json::array();
  if (experiment_.workers.size() < 2) return list;
  for (size_t subject = 0; subject < experiment_.subjects.size(); ++subject) {
    for (size_t straggler = 0; straggler < experiment_.stragglers.size(); ++straggler) {
      Json series = Json::array();
      for (size_t policy = 0; policy < experiment_.policies.size(); ++policy) {
        Json estimates = Json::array();
        for (const uint32_t workers : experiment_.workers) {
          const CellResult* cell = results_.Find({subject, policy, straggler, workers});
          estimates.push_back(
              cell == nullptr || cell->finished.empty() ? Json() : EstimateJson(cell->time_s));
        }
        series.push_back({{"policy", policy}, {"time_s", std::move(estimates)}});
      }
      list.push_back({{"subject", experiment_.subjects[subject].name},
                      {"condition", experiment_.stragglers[straggler].name()},
                      {"scaling", spec_.scaling() == ExperimentSpec::weak ? "weak" : "strong"},
                      {"workers", experiment_.workers},
                      {"series", std::move(series)}});
    }
  }
  return list;
}

Json PageData::Tuned() const {
  Json list = Json::array();
  for (const TuningResult& row : results_.tuning) {
    const ResolvedSubject& subject = experiment_.subjects[row.cell.subject];
    const Settings& settings = subject.grids[row.cell.policy].candidates[row.candidate];
    list.push_back({{"subject", subject.name},
                    {"policy", row.cell.policy},
                    {"condition", experiment_.stragglers[row.cell.straggler].name()},
                    {"workers", row.cell.workers},
                    {"optimizer", settings.optimizer},
                    {"schedule", settings.schedule},
                    {"runs", row.runs},
                    {"train_loss", std::isfinite(row.train_loss) ? Json(row.train_loss) : Json()},
                    {"edge", row.edge},
                    {"chosen", row.chosen}});
  }
  return list;
}

}  // namespace

std::string ReportData(const Results& results) {
  return PageData(results).Make().dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace soapstone::experiment
