// Results: the finished runs of an experiment, ordered by cell, with the numbers that the report
// shows of each. Values; made from outcomes only, so that the page can be drawn again at any time.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiment/agenda.h"
#include "experiment/run.h"
#include "experiment/spec.h"
#include "experiment/statistics.h"
#include "experiment/straggler_effect.h"

namespace soapstone::experiment {

// The measured runs of a cell.
struct CellResult {
  Cell cell;
  std::optional<size_t> candidate;      // the chosen one, once tuned
  std::vector<const RunOutcome*> runs;  // by the spec's seeds; null: not finished
  std::vector<const RunOutcome*> finished;
  size_t reached = 0;                // of the finished
  size_t not_finite = 0;             // likewise: IsFinite of run.h
  size_t guessing = 0;               // likewise: no better than GuessingAccuracy of run.h
  Estimate accuracy, time_s, bytes;  // at the end; to the target, infinite where not reached
  Estimate duration_s, total_bytes;
  double compute_s = 0, waiting_s = 0, worker_s = 0;  // sums; worker_s: workers x duration
  std::vector<uint64_t> read_lags;
  uint64_t violations = 0;
  std::optional<ReplicaAccuracy> replicas;  // medians over runs
  StragglerEffect stragglers;               // 1 and 1 until a run has finished
};

struct TuningResult {
  Cell cell;
  size_t candidate = 0;
  double train_loss = 0;  // mean over the tuning seeds; NaN: diverged
  bool edge = false;      // AtEdge of grids.h
  size_t runs = 0;        // finished
  bool chosen = false;
  std::set<std::string> files, traces;  // Provenance::files_sha256, traces_sha256 of the runs
};

// What the registry's file says of itself.
struct RegistryFacts {
  bool chain_verified = true;
  uint64_t torn_lines = 0;  // dropped after kills, in this process
};

struct Results {
  const Experiment* experiment = nullptr;
  const Outcomes* outcomes = nullptr;
  RegistryFacts registry;
  std::vector<CellResult> cells;  // in the order of CellsOf
  std::vector<TuningResult> tuning;
  size_t total = 0, finished = 0, tuning_finished = 0;
  double spent_s = 0;

  // Null where there is none.
  const CellResult* Find(const Cell& cell) const;
};

// `experiment` and `outcomes` outlive what is returned.
Results Summarize(const Experiment& experiment, const Outcomes& outcomes,
                  const RegistryFacts& registry);

// How far `faster` is ahead of `than` in the seeds that both have finished.
struct Comparison {
  size_t pairs = 0;
  RatioEstimate ratio;
  double accuracy_drop = 0;  // median over the pairs of than's final accuracy minus faster's
};
Comparison Compare(const Results& results, const CellResult& faster, const CellResult& than,
                   Claim::Measure measure);

// Its rate as a share of the ideal one: with work shared out in proportion to the workers' speeds,
// at no cost. With F_w the mean over the run of worker w's straggler factor, T the iteration time
// and C the run's clocks:
//   ideal duration = C T P / sum_w (1 / F_w)
// REQUIRES: the experiment has an iteration time.
Comparison CompareWithIdeal(const Results& results, const CellResult& cell);

}  // namespace soapstone::experiment
