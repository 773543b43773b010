#include "experiment/report/report.h"

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "experiment/report/web_assets.h"
#include "experiment/run_json.h"

namespace soapstone::experiment {
namespace {

std::string EscapedHtml(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// Calls `take` with every finished run once, in the order of the matrix.
template <typename Take>
void ForEachRun(const Results& results, const Take& take) {
  std::set<std::string> seen;
  const auto offer = [&](const RunPlan& plan) {
    const auto found = results.outcomes->find(plan.id);
    if (found != results.outcomes->end() && seen.insert(plan.id).second) take(plan, found->second);
  };
  for (const CellResult& cell : results.cells) {
    for (const RunPlan& plan : TuningPlans(*results.experiment, cell.cell)) offer(plan);
    if (!cell.candidate.has_value()) continue;
    for (const RunPlan& plan : MeasuredPlans(*results.experiment, cell.cell, *cell.candidate)) {
      offer(plan);
    }
  }
}

// As RFC 4180 has it.
std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

// Empty where there is no number: the target was not reached, training diverged.
std::string CsvNumber(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.9g", value) : "";
}

std::string CsvLine(const Experiment& experiment, const RunPlan& plan, const RunOutcome& run) {
  const double target = experiment.subjects[plan.cell.subject].target_accuracy;
  uint64_t reads = 0, lags = 0;
  for (size_t lag = 0; lag < run.read_lags.size(); ++lag) {
    reads += run.read_lags[lag];
    lags += lag * run.read_lags[lag];
  }
  const std::vector<std::string> fields = {
      plan.id,
      plan.tuning ? "tuning" : "measured",
      CsvField(experiment.subjects[plan.cell.subject].name),
      CsvField(experiment.policies[plan.cell.policy].name),
      CsvField(experiment.stragglers[plan.cell.straggler].name()),
      absl::StrCat(plan.cell.workers),
      absl::StrCat(plan.config.training().seed()),
      CsvField(plan.config.training().optimizer()),
      CsvField(plan.config.training().schedule()),
      CsvNumber(run.test_accuracy),
      CsvNumber(run.train_loss),
      CsvNumber(ValueOf(CostToTarget(run, target, Claim::time))),
      CsvNumber(ValueOf(CostToTarget(run, target, Claim::bytes))),
      CsvNumber(run.duration_s),
      absl::StrCat(run.samples),
      absl::StrCat(run.bytes),
      CsvNumber(reads > 0 ? static_cast<double>(lags) / static_cast<double>(reads) : 0),
      absl::StrCat(run.read_lags.empty() ? 0 : run.read_lags.size() - 1),
      CsvNumber(run.compute_s),
      CsvNumber(run.waiting_s),
      absl::StrCat(run.violations),
      CsvNumber(run.spent_s),
      run.parameters_sha256};
  return absl::StrCat(absl::StrJoin(fields, ","), "\n");
}

}  // namespace

std::string RunsCsv(const Results& results) {
  std::string csv =
      "id,purpose,subject,policy,under,workers,seed,optimizer,schedule,test_accuracy,train_loss,"
      "time_to_target_s,bytes_to_target,duration_s,samples,bytes,lag_mean,lag_max,compute_s,"
      "waiting_s,violations,spent_s,parameters_sha256\n";
  ForEachRun(results, [&](const RunPlan& plan, const RunOutcome& run) {
    csv += CsvLine(*results.experiment, plan, run);
  });
  return csv;
}

std::string RunsJson(const Results& results) {
  std::vector<std::string> runs;
  ForEachRun(results, [&](const RunPlan& plan, const RunOutcome& run) {
    runs.push_back(RecordJson(*results.experiment, plan, run));
  });
  return absl::StrCat("{\"experiment\":\"", results.experiment->digest, "\",\"runs\":[\n",
                      absl::StrJoin(runs, ",\n"), "\n]}\n");
}

std::string ReportPage(const Results& results) {
  // In a <script>, "<" could end the element; in JSON it may be written as \u003c.
  const std::string data = absl::StrReplaceAll(ReportData(results), {{"<", "\\u003c"}});
  const std::string title = EscapedHtml(results.experiment->spec.title());
  // One pass: what is put in is not looked at again.
  return absl::StrReplaceAll(PageHtml(), {{"{{title}}", title},
                                          {"{{uplot.css}}", UplotCss()},
                                          {"{{page.css}}", PageCss()},
                                          {"{{uplot.js}}", UplotJs()},
                                          {"{{page.js}}", PageJs()},
                                          {"{{data}}", data}});
}

}  // namespace soapstone::experiment
