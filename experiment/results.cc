#include "experiment/results.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "cluster/straggler.h"
#include "experiment/grids.h"

namespace soapstone::experiment {
namespace {

template <typename Number>
Estimate EstimateOf(const std::vector<const RunOutcome*>& runs, const Number& number) {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const RunOutcome* run : runs) values.push_back(number(*run));
  return MedianEstimate(std::move(values));
}

void AddLags(const std::vector<uint64_t>& lags, std::vector<uint64_t>* sum) {
  if (sum->size() < lags.size()) sum->resize(lags.size());
  for (size_t i = 0; i < lags.size(); ++i) (*sum)[i] += lags[i];
}

std::optional<ReplicaAccuracy> ReplicasOf(const std::vector<const RunOutcome*>& runs) {
  std::vector<double> min, median, max;
  for (const RunOutcome* run : runs) {
    if (!run->replicas.has_value()) return std::nullopt;
    min.push_back(run->replicas->min);
    median.push_back(run->replicas->median);
    max.push_back(run->replicas->max);
  }
  if (min.empty()) return std::nullopt;
  return ReplicaAccuracy{Median(min), Median(median), Median(max)};
}

Clock ClocksOf(const Experiment& experiment, const Cell& cell, const RunOutcome& run) {
  const wire::JobConfig job = JobOf(experiment, cell.subject, cell.policy, {}, cell.workers);
  const wire::Training& training = job.training();
  const uint64_t batch = std::max(1u, training.batch());
  const uint64_t epoch = (run.provenance.train_samples + batch - 1) / batch;
  const uint64_t clocks = std::max<uint64_t>(1, epoch * training.epochs());
  return static_cast<Clock>(training.steps() > 0 ? std::min<uint64_t>(clocks, training.steps())
                                                 : clocks);
}

CellResult ResultOf(const Experiment& experiment, const Cell& cell, const Outcomes& outcomes) {
  CellResult result{.cell = cell, .candidate = ChosenCandidate(experiment, cell, outcomes)};
  if (!result.candidate.has_value()) return result;
  for (const RunPlan& plan : MeasuredPlans(experiment, cell, *result.candidate)) {
    const auto found = outcomes.find(plan.id);
    const RunOutcome* run = found == outcomes.end() ? nullptr : &found->second;
    result.runs.push_back(run);
    if (run == nullptr) continue;
    result.finished.push_back(run);
    result.compute_s += run->compute_s;
    result.waiting_s += run->waiting_s;
    result.worker_s += run->duration_s * cell.workers;
    result.violations += run->violations;
    if (!IsFinite(*run)) ++result.not_finite;
    const double guessing = GuessingAccuracy(run->provenance);
    if (guessing > 0 && !(run->test_accuracy > guessing)) ++result.guessing;
    AddLags(run->read_lags, &result.read_lags);
  }
  const double target = experiment.subjects[cell.subject].target_accuracy;
  const auto cost = [target](Claim::Measure measure) {
    return [=](const RunOutcome& run) { return ValueOf(CostToTarget(run, target, measure)); };
  };
  const auto& runs = result.finished;
  result.reached =
      static_cast<size_t>(std::count_if(runs.begin(), runs.end(), [target](const RunOutcome* run) {
        return CostToTarget(*run, target, Claim::time).reached;
      }));
  result.accuracy = EstimateOf(runs, [](const RunOutcome& run) { return run.test_accuracy; });
  result.time_s = EstimateOf(runs, cost(Claim::time));
  result.bytes = EstimateOf(runs, cost(Claim::bytes));
  result.duration_s = EstimateOf(runs, [](const RunOutcome& run) { return run.duration_s; });
  result.total_bytes =
      EstimateOf(runs, [](const RunOutcome& run) { return static_cast<double>(run.bytes); });
  result.replicas = ReplicasOf(runs);
  return result;
}

double IdealSeconds(const Experiment& experiment, const Cell& cell, const RunOutcome& run,
                    uint64_t seed) {
  const auto model =
      sim::StragglerModel::Parse(experiment.stragglers[cell.straggler].model(), seed);
  CHECK(model.ok()) << model.status();  // the file was checked
  const Clock clocks = ClocksOf(experiment, cell, run);
  double speeds = 0;
  for (uint32_t w = 0; w < cell.workers; ++w) {
    double factors = 0;
    for (Clock c = 0; c < clocks; ++c) factors += model->Factor(WorkerId{w}, c);
    speeds += static_cast<double>(clocks) / factors;
  }
  return static_cast<double>(clocks) * IterationMs(experiment, cell.workers) / 1000 * cell.workers /
         speeds;
}

using Effects = std::map<std::tuple<size_t, size_t, uint32_t>, StragglerEffect>;

// The same for every policy: computed once.
void AddEffect(const Experiment& experiment, Effects* effects, CellResult* result) {
  if (result->finished.empty()) return;
  const Cell& cell = result->cell;
  const auto [at, fresh] = effects->try_emplace({cell.subject, cell.straggler, cell.workers});
  if (fresh) {
    at->second = EffectOf(experiment.stragglers[cell.straggler].model(), experiment.seeds,
                          cell.workers, ClocksOf(experiment, cell, *result->finished.front()));
  }
  result->stragglers = at->second;
}

void AddTuning(const CellResult& cell, Results* results) {
  const Experiment& experiment = *results->experiment;
  const Grid& grid = experiment.subjects[cell.cell.subject].grids[cell.cell.policy];
  std::vector<TuningResult> rows(grid.candidates.size());
  for (const RunPlan& plan : TuningPlans(experiment, cell.cell)) {
    const auto found = results->outcomes->find(plan.id);
    if (found == results->outcomes->end()) continue;
    TuningResult& row = rows[plan.candidate];
    row.train_loss += found->second.train_loss;
    row.files.insert(found->second.provenance.files_sha256);
    row.traces.insert(found->second.provenance.traces_sha256);
    ++row.runs;
    ++results->tuning_finished;
  }
  if (grid.budget() == 0) return;
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].cell = cell.cell;
    rows[i].candidate = i;
    if (rows[i].runs > 0) rows[i].train_loss /= static_cast<double>(rows[i].runs);
    rows[i].chosen = cell.candidate == i;
    rows[i].edge = AtEdge(grid, i);
    results->tuning.push_back(rows[i]);
  }
}

}  // namespace

const CellResult* Results::Find(const Cell& cell) const {
  const auto found = std::find_if(cells.begin(), cells.end(),
                                  [&](const CellResult& result) { return result.cell == cell; });
  return found == cells.end() ? nullptr : &*found;
}

Results Summarize(const Experiment& experiment, const Outcomes& outcomes,
                  const RegistryFacts& registry) {
  Results results{.experiment = &experiment, .outcomes = &outcomes, .registry = registry};
  Effects effects;
  for (const Cell& cell : CellsOf(experiment)) {
    results.cells.push_back(ResultOf(experiment, cell, outcomes));
    AddTuning(results.cells.back(), &results);
    AddEffect(experiment, &effects, &results.cells.back());
    results.finished += results.cells.back().finished.size();
    results.total +=
        experiment.seeds.size() + experiment.subjects[cell.subject].grids[cell.policy].budget();
  }
  results.finished += results.tuning_finished;
  for (const auto& [id, outcome] : outcomes) results.spent_s += outcome.spent_s;
  return results;
}

Comparison Compare(const Results& results, const CellResult& faster, const CellResult& than,
                   Claim::Measure measure) {
  const double target = results.experiment->subjects[faster.cell.subject].target_accuracy;
  std::vector<Cost> faster_costs, than_costs;
  std::vector<double> drops;
  for (size_t i = 0; i < std::min(faster.runs.size(), than.runs.size()); ++i) {
    if (faster.runs[i] == nullptr || than.runs[i] == nullptr) continue;
    faster_costs.push_back(CostToTarget(*faster.runs[i], target, measure));
    than_costs.push_back(CostToTarget(*than.runs[i], target, measure));
    drops.push_back(than.runs[i]->test_accuracy - faster.runs[i]->test_accuracy);
  }
  Comparison comparison{.pairs = drops.size()};
  comparison.ratio = PairedRatio(faster_costs, than_costs);
  comparison.accuracy_drop = Median(std::move(drops));
  return comparison;
}

Comparison CompareWithIdeal(const Results& results, const CellResult& cell) {
  const Experiment& experiment = *results.experiment;
  std::vector<Cost> durations, ideals;
  for (size_t i = 0; i < cell.runs.size(); ++i) {
    if (cell.runs[i] == nullptr) continue;
    durations.push_back({true, cell.runs[i]->duration_s});
    const uint64_t seed = experiment.seeds[i];
    ideals.push_back({true, IdealSeconds(experiment, cell.cell, *cell.runs[i], seed)});
  }
  return {.pairs = durations.size(), .ratio = PairedRatio(durations, ideals)};
}

}  // namespace soapstone::experiment
