// For tests: an experiment file that every rule of honesty.h lets pass, and runs of it that are
// made up by a formula.
#pragma once

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "experiment/agenda.h"
#include "experiment/run.h"
#include "experiment/spec.h"

namespace soapstone::experiment {

inline std::string FakeSpecText() {
  return R"(title: "Fake"
base {
  model: "softmax"
  data { format: "digits" path: "digits.csv" }
  training { epochs: 2 batch: 32 micro_batches: 8 optimizer: "momentum:lr=0.1,mu=0.9" }
  cluster { servers: 1 }
}
policies { spec: "bsp" }
policies { spec: "ssp:s=2" }
policies { spec: "async" }
policies { spec: "easgd:tau=4" }
stragglers { name: "none" model: "none" }
stragglers { name: "transient" model: "stall:p=0.02,factor=6" }
stragglers { name: "persistent" model: "slow:workers=1,factor=2" }
workers: 4
seed_count: 7
tuning { learning_rates: [0.1, 0.2, 0.4] seed_count: 3 }
one_worker: true
target_accuracy: 0.8
iteration_ms: 10
claims { faster: "ssp:s=2" than: "bsp" under: "transient" at_least: 1.5 }
claims { faster: "ssp:s=2" than: "bsp" under: "persistent" at_most: 1.05 }
)";
}

// The file with `from` in place of `to`.
inline std::string FakeSpecWith(const std::string& from, const std::string& to) {
  return absl::StrReplaceAll(FakeSpecText(), {{from, to}});
}

inline absl::StatusOr<wire::JobConfig> AnyJob(const wire::JobConfig& config) { return config; }

inline absl::StatusOr<Experiment> FakeExperiment(const std::string& text = FakeSpecText()) {
  return ParseExperiment(text, "fake.textproto", AnyJob);
}

// bsp's 1,000 samples take 10 s, under transient stragglers 20 s; the others' half of that, but
// under persistent ones as long. Rates of 0.2 end at a lower training loss. The seed adds up to 4%.
inline RunOutcome FakeOutcome(const RunPlan& plan) {
  constexpr int kPoints = 10;
  const bool bsp = plan.config.policy() == "bsp";
  const bool persistent = plan.cell.straggler == 2;
  const double jitter = 1 + 0.01 * static_cast<double>(plan.config.training().seed() % 5);
  const double seconds = (plan.cell.straggler == 1 ? 2 : 1) * (bsp || persistent ? 10 : 5) * jitter;
  RunOutcome outcome{.test_accuracy = 0.95, .train_loss = plan.candidate == 1 ? 0.1 : 0.2};
  for (int i = 1; i <= kPoints; ++i) {
    const double share = static_cast<double>(i) / kPoints;
    outcome.curve.push_back({.time_s = seconds * share,
                             .samples = static_cast<uint64_t>(100 * i),
                             .train_loss = 1 - 0.9 * share,
                             .test_loss = 1 - 0.8 * share,
                             .test_accuracy = 0.95 * std::sqrt(share),
                             .bytes = static_cast<uint64_t>(1000 * i)});
  }
  outcome.duration_s = seconds;
  outcome.samples = 1000;
  outcome.bytes = 10'000;
  outcome.read_lags = bsp || plan.cell.workers == 1 ? std::vector<uint64_t>{100}
                                                    : std::vector<uint64_t>{50, 30, 20};
  outcome.compute_s = 0.7 * seconds * plan.cell.workers;
  outcome.waiting_s = 0.2 * seconds * plan.cell.workers;
  outcome.parameters_sha256 = absl::StrCat(plan.id, std::string(48, 'a'));
  outcome.replicas = ReplicaAccuracy{0.93, 0.94, 0.95};
  outcome.provenance = {.hardware = "a processor",
                        .build = "a program",
                        .train_sha256 = absl::StrCat("train", plan.config.training().seed()),
                        .test_sha256 = absl::StrCat("test", plan.config.training().seed()),
                        .files_sha256 = "files",
                        .traces_sha256 = "traces",
                        .train_samples = 1438,
                        .test_samples = 359,
                        .parameters = 650,
                        .chance = 0.1,
                        .precision = "float32",
                        .communication = "fifo",
                        .codec = "none"};
  outcome.spent_s = 0.5;
  return outcome;
}

inline bool Is(const RunPlan& plan, const std::string& policy) {
  return plan.config.policy() == policy;
}

// All runs. `change` may alter one before it counts.
template <typename Change>
Outcomes FakeRuns(const Experiment& experiment, const Change& change) {
  Agenda agenda(&experiment, {});
  while (const std::optional<RunPlan> plan = agenda.Next()) {
    RunOutcome outcome = FakeOutcome(*plan);
    change(*plan, &outcome);
    agenda.Finish(*plan, std::move(outcome));
  }
  return agenda.outcomes();
}
inline Outcomes FakeRuns(const Experiment& experiment) {
  return FakeRuns(experiment, [](const RunPlan&, RunOutcome*) {});
}

}  // namespace soapstone::experiment
