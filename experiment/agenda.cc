#include "experiment/agenda.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "experiment/run_json.h"

namespace soapstone::experiment {
namespace {

// Of the run as the file has it: from which folder the experiment is started is not in it.
std::string IdAsWritten(const Experiment& experiment, RunPlan plan) {
  const wire::JobConfig& written = experiment.subjects[plan.cell.subject].written;
  plan.config.set_model(written.model());
  if (written.has_data()) *plan.config.mutable_data() = written.data();
  plan.config.mutable_training()->set_initial_weights(written.training().initial_weights());
  if (!experiment.spec.stragglers().empty()) {
    plan.stragglers = experiment.spec.stragglers(static_cast<int>(plan.cell.straggler)).model();
  }
  return IdOf(plan);
}

RunPlan PlanOf(const Experiment& experiment, const Cell& cell, size_t candidate, uint64_t seed) {
  const ExperimentSpec& spec = experiment.spec;
  const Grid& grid = experiment.subjects[cell.subject].grids[cell.policy];
  RunPlan plan{.cell = cell,
               .candidate = candidate,
               .config = JobOf(experiment, cell.subject, cell.policy, grid.candidates[candidate],
                               cell.workers),
               .stragglers = experiment.stragglers[cell.straggler].model(),
               .real = spec.mode() == ExperimentSpec::real,
               .latency_us = spec.latency_us(),
               .bandwidth_mbps = spec.bandwidth_mbps()};
  plan.config.mutable_training()->set_seed(seed);
  plan.iteration_ms = IterationMs(experiment, cell.workers);
  plan.id = IdAsWritten(experiment, plan);
  return plan;
}

}  // namespace

std::optional<Cell> OneWorkerCell(const Experiment& experiment, size_t subject) {
  if (!experiment.spec.one_worker()) return std::nullopt;
  for (size_t policy = 0; policy < experiment.policies.size(); ++policy) {
    if (experiment.policies[policy].name != "bsp") continue;
    return Cell{.subject = subject, .policy = policy, .straggler = 0, .workers = 1};
  }
  return std::nullopt;
}

std::vector<Cell> CellsOf(const Experiment& experiment) {
  std::vector<Cell> cells;
  for (size_t subject = 0; subject < experiment.subjects.size(); ++subject) {
    for (const uint32_t workers : experiment.workers) {
      for (size_t straggler = 0; straggler < experiment.stragglers.size(); ++straggler) {
        for (size_t policy = 0; policy < experiment.policies.size(); ++policy) {
          cells.push_back({subject, policy, straggler, workers});
        }
      }
    }
    const std::optional<Cell> alone = OneWorkerCell(experiment, subject);
    if (alone.has_value() && std::count(cells.begin(), cells.end(), *alone) == 0) {
      cells.push_back(*alone);
    }
  }
  return cells;
}

std::vector<RunPlan> TuningPlans(const Experiment& experiment, const Cell& cell) {
  const Grid& grid = experiment.subjects[cell.subject].grids[cell.policy];
  std::vector<RunPlan> plans;
  if (grid.budget() == 0) return plans;
  plans.reserve(grid.budget());
  for (size_t candidate = 0; candidate < grid.candidates.size(); ++candidate) {
    for (const uint64_t seed : grid.seeds) {
      plans.push_back(PlanOf(experiment, cell, candidate, seed));
      plans.back().tuning = true;
    }
  }
  return plans;
}

std::vector<RunPlan> MeasuredPlans(const Experiment& experiment, const Cell& cell,
                                   size_t candidate) {
  std::vector<RunPlan> plans;
  plans.reserve(experiment.seeds.size());
  for (const uint64_t seed : experiment.seeds) {
    plans.push_back(PlanOf(experiment, cell, candidate, seed));
  }
  return plans;
}

std::optional<size_t> ChosenCandidate(const Experiment& experiment, const Cell& cell,
                                      const Outcomes& outcomes) {
  const Grid& grid = experiment.subjects[cell.subject].grids[cell.policy];
  std::vector<double> losses(grid.candidates.size(), 0);
  for (const RunPlan& plan : TuningPlans(experiment, cell)) {
    const auto found = outcomes.find(plan.id);
    if (found == outcomes.end()) return std::nullopt;
    const double loss = found->second.train_loss;
    losses[plan.candidate] += std::isnan(loss) ? std::numeric_limits<double>::infinity() : loss;
  }
  return static_cast<size_t>(std::min_element(losses.begin(), losses.end()) - losses.begin());
}

Agenda::Agenda(const Experiment* experiment, Outcomes outcomes)
    : experiment_(experiment), outcomes_(std::move(outcomes)), untuned_(CellsOf(*experiment)) {
  total_ = untuned_.size() * experiment->seeds.size();
  for (const Cell& cell : untuned_) {
    std::vector<RunPlan> plans = TuningPlans(*experiment, cell);
    total_ += plans.size();
    Enqueue(std::move(plans));
  }
  EnqueueMeasured();
}

void Agenda::Enqueue(std::vector<RunPlan> plans) {
  for (RunPlan& plan : plans) {
    if (outcomes_.contains(plan.id)) {
      ++finished_;
    } else {
      waiting_.push_back(std::move(plan));
    }
  }
}

void Agenda::EnqueueMeasured() {
  const auto enqueue = [this](const Cell& cell) {
    const std::optional<size_t> chosen = ChosenCandidate(*experiment_, cell, outcomes_);
    if (chosen.has_value()) Enqueue(MeasuredPlans(*experiment_, cell, *chosen));
    return chosen.has_value();
  };
  untuned_.erase(std::remove_if(untuned_.begin(), untuned_.end(), enqueue), untuned_.end());
}

std::optional<RunPlan> Agenda::Next() {
  if (waiting_.empty()) return std::nullopt;
  RunPlan plan = std::move(waiting_.front());
  waiting_.pop_front();
  return plan;
}

void Agenda::Finish(const RunPlan& plan, RunOutcome outcome) {
  const bool fresh = outcomes_.emplace(plan.id, std::move(outcome)).second;
  CHECK(fresh) << "run " << plan.id << " twice";
  ++finished_;
  if (plan.tuning) EnqueueMeasured();
}

}  // namespace soapstone::experiment
