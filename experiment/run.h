// One run of an experiment: what is run (RunPlan), and what came of it (RunOutcome); values. The
// runner of the caller's turns the one into the other, by co-simulation or with real processes.
// Their form in the registry is in run_json.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/curve.h"
#include "wire/config/job.pb.h"

namespace soapstone::experiment {

// Where a run stands in the matrix: indexes into Experiment.
struct Cell {
  size_t subject = 0;
  size_t policy = 0;
  size_t straggler = 0;
  uint32_t workers = 0;  // their number
  friend auto operator<=>(const Cell&, const Cell&) = default;
};

struct RunPlan {
  std::string id;  // of all below that decides the result: 16 hex digits
  Cell cell;
  bool tuning = false;
  size_t candidate = 0;     // of the grid
  wire::JobConfig config;   // policy, settings, workers and seed applied; defaults not filled in
  std::string stragglers;   // model, drawn with config.training.seed
  bool real = false;        // processes and wall time; else co-simulation and virtual time
  double iteration_ms = 0;  // of one worker's share of the batch; real: 0 is as long as it takes
  double latency_us = 0;
  double bandwidth_mbps = 0;
};

// Held-out accuracy of the single replicas, for policies that average them.
struct ReplicaAccuracy {
  double min = 0, median = 0, max = 0;
  friend bool operator==(const ReplicaAccuracy&, const ReplicaAccuracy&) = default;
};

// What the numbers were made with and of.
struct Provenance {
  std::string hardware;  // processor and cores
  std::string build;     // of the program and its libraries
  std::string train_sha256, test_sha256;
  std::string files_sha256;   // of data, model and initial weights; empty: none, or not known
  std::string traces_sha256;  // of the straggler model; likewise
  uint64_t train_samples = 0, test_samples = 0;
  uint64_t test_in_train = 0;  // held-out samples that are training samples too
  uint64_t parameters = 0;
  double chance = 0;          // share of the held-out samples' most frequent label; 0: not known
  std::string precision;      // of the factors of products: float32, tf32, bf16
  std::string communication;  // order of sending: fifo, priority
  std::string codec;          // of what is sent: none where it is sent as it is
  friend bool operator==(const Provenance&, const Provenance&) = default;
};

struct RunOutcome {
  std::vector<CurvePoint> curve;  // by samples; the last is the end
  double test_accuracy = 0;       // at the end, on held-out samples
  double train_loss = 0;          // at the end; NaN where it diverged
  double duration_s = 0;  // from the start barrier to the last worker's end, warm-up included
  uint64_t samples = 0;
  uint64_t bytes = 0;               // sent by all, headers included
  std::vector<uint64_t> read_lags;  // reads by lag
  double compute_s = 0;             // summed over workers
  double waiting_s = 0;
  uint64_t violations = 0;  // of the policy's guarantee
  bool diverged = false;    // an update or a loss was not finite: no result
  std::string parameters_sha256;
  std::optional<ReplicaAccuracy> replicas;
  Provenance provenance;
  double spent_s = 0;  // wall time that the run took
  friend bool operator==(const RunOutcome&, const RunOutcome&) = default;
};

// Whether all that was measured of training and accuracy is a finite number.
bool IsFinite(const RunOutcome& outcome);

// The accuracy that guessing may come to: with q the share of the most frequent label among n
// held-out samples, q + 3 sqrt(q (1 - q) / n), three standard errors above it. 0: q is not known.
double GuessingAccuracy(const Provenance& provenance);

// Called now and then with the fraction done. False: give up, with Cancelled.
using RunProgress = std::function<bool(double fraction)>;
using RunFunction =
    std::function<absl::StatusOr<RunOutcome>(const RunPlan& plan, const RunProgress& progress)>;

}  // namespace soapstone::experiment
