// Agenda: which runs an experiment consists of, which come next, and what came of them. A value:
// the caller makes the runs (many at once, if it likes) and tells it the outcomes; with the
// outcomes of an earlier process it goes on where that stopped.
//
// For each cell (subject, policy, straggler, number of workers):
//   tuning    every candidate of the grid with every tuning seed
//   measured  the candidate with the least training loss, with every measured seed
// The seed of a run is that of its data order, initial values, split and stragglers: the same for
// every policy, so that runs are compared in pairs.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiment/run.h"
#include "experiment/spec.h"

namespace soapstone::experiment {

using Outcomes = std::map<std::string, RunOutcome>;  // by RunPlan::id

// All cells, in the order in which they run; that of the one-worker baseline last.
std::vector<Cell> CellsOf(const Experiment& experiment);
// The one-worker baseline, where the experiment has one: bsp under the first straggler model.
std::optional<Cell> OneWorkerCell(const Experiment& experiment, size_t subject);

std::vector<RunPlan> TuningPlans(const Experiment& experiment, const Cell& cell);
// With `candidate` of its grid.
std::vector<RunPlan> MeasuredPlans(const Experiment& experiment, const Cell& cell,
                                   size_t candidate);
// The candidate with the least mean training loss over the tuning seeds, diverged ones last, the
// first of equals; empty while one of its tuning runs is missing. 0 where nothing is tuned.
std::optional<size_t> ChosenCandidate(const Experiment& experiment, const Cell& cell,
                                      const Outcomes& outcomes);

// Invariant: a plan is handed out once, unless it is given back.
class Agenda {
 public:
  // `experiment` outlives it.
  Agenda(const Experiment* experiment, Outcomes outcomes);

  // The next run to start. Empty: none can start before another has finished, or all have.
  std::optional<RunPlan> Next();
  // REQUIRES: `plan` was handed out.
  void Finish(const RunPlan& plan, RunOutcome outcome);

  size_t total() const { return total_; }
  size_t finished() const { return finished_; }
  const Outcomes& outcomes() const { return outcomes_; }

 private:
  void Enqueue(std::vector<RunPlan> plans);
  void EnqueueMeasured();

  const Experiment* experiment_;
  Outcomes outcomes_;
  std::deque<RunPlan> waiting_;
  std::vector<Cell> untuned_;  // whose measured runs are not known yet
  size_t total_ = 0;
  size_t finished_ = 0;
};

}  // namespace soapstone::experiment
