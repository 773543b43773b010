// Cosimulate: a job trained in virtual time. The cost model says when a gradient arrives, a real
// device on this machine says what it is; the actors, the policy and the stores are those that
// ship. One thread, any number of workers; the same job, timing and seeds give the same bits. Who
// calls: `soapstone simulate --job`, experiments. Has no clock, reads no file.
//
// A worker's gradient is computed when its commands reach its device, with the parameters that it
// has loaded by then, and handed over at the virtual time at which the cost model is done with it.
// So workers share one set of kernels and activations. Of its own each has its latest gradient
// and, under averaging policies, its parameters and its optimizer's state.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/curve.h"
#include "cluster/training_job.h"
#include "sim/virtual/seat_costs.h"
#include "sim/virtual_cluster.h"
#include "strategy/machine.h"

namespace soapstone::experiment {

// When things happen (sim/virtual_cluster.h).
struct CosimTiming {
  std::string stragglers = "none";
  uint64_t seed = 1;                  // of the stragglers
  Nanos iteration_ns = kMillisecond;  // of a worker's share of the batch, where no factor applies
  double latency_us = 0;
  double bandwidth_mbps = 0;       // of each link; 0: no limit
  Nanos timeout_ns = 5 * kSecond;  // until a worker that failed is counted out
  // Of a model that is split (planned_times.h), with whose links: null: iteration_ns a step, and
  // links of their own. They outlive the run.
  const sim::SeatCosts* seat_costs = nullptr;
  const planner::Machine* machine = nullptr;
};

struct CosimOptions {
  // A point each time that the updates of so many samples more are in the stores. 0: one point, at
  // the end.
  uint64_t samples_per_point = 0;
  // About a hundred times: the share that is done, and the latest point (null: none yet).
  std::function<void(double fraction, const CurvePoint* latest)> progress;
  std::function<double()> wall_seconds;  // a clock of the caller's; null: not measured
  bool timeline = false;                 // keep timing.spans
};

struct CosimResult {
  std::vector<CurvePoint> curve;  // ascending; the last is the end, with every update applied
  double test_accuracy = 0;       // of the last point
  double test_loss = 0;
  std::string sha256;  // of the final parameters, as a real cluster reports it
  // Why the result is not one: an update or a loss was not finite. Empty: it is.
  std::string diverged;

  double duration_s = 0;  // virtual
  double compute_s = 0;   // worker time
  double wait_s = 0;      // likewise; without the time that failed workers were down
  uint64_t iterations = 0;
  // Averaging policies: held-out accuracy of the workers' own parameters at the end.
  struct Spread {
    double min = 0;
    double median = 0;
    double max = 0;
  };
  std::optional<Spread> replica_accuracy;
  // Rate, read lags, blocked fraction, violations, bytes, wall time. Durations are in units of
  // iteration_ns there.
  sim::VirtualResult timing;
};

// `job` is complete; whose gradient is spoilt the timing says, not the job. Errors: InvalidArgument
// with what is at fault in the job or the timing; an operator that this machine cannot run. A
// broken guarantee is no error: see timing.violations.
absl::StatusOr<CosimResult> Cosimulate(const cluster::TrainingJob& job, const CosimTiming& timing,
                                       const CosimOptions& options);

}  // namespace soapstone::experiment
