// RunVirtual: a cluster in virtual time. The smallest timestamp picks the next message: a heap of
// events ordered by (time, sequence) over modelled delays. The actors are the shipped ones; a cost
// model stands for the device and a network model for the wire. Tens of thousands of workers fit,
// since stores count instead of holding tensors; unless a Training is put behind the actors, which
// then really train (sim/training.h) and meet the same delays.
// Who calls: `soapstone simulate`, experiments, the bench. Has no clock and no thread of its own.
//
//     time of worker w's iteration c   = iteration_ns * Factor(w, c), of cluster/straggler.h
//     a message leaves its channel at    max(now, channel free) + bytes / bandwidth
//     and arrives                        latency later, in order on each channel
//
// A worker that fails (failstop) is counted out timeout_ns later; its successor says Hello once it
// is, and not before the model's down_ms.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "sim/training.h"
#include "sim/virtual/seat_costs.h"
#include "strategy/machine.h"

namespace soapstone::sim {

struct VirtualOptions {
  uint32_t workers = 32;
  uint32_t shards = 1;
  uint32_t buckets_per_shard = 1;
  uint32_t micro_batch_count =
      0;                   // micro-batches of a global batch; 0: one a worker, or 16 to re-balance
  bool rebalance = false;  // share the batch out by measured speed (scheduler/rebalancer.h)
  std::string policy = "ssp:s=4";
  std::string stragglers = "none";
  uint64_t seed = 1;

  // The run ends when every worker has done `clocks` iterations, or at `duration` units of
  // iteration_ns, whichever is first. 0: no such limit; one of the two must be given.
  Clock clocks = 0;
  double duration = 0;

  Nanos iteration_ns = kMillisecond;  // of an equal share of the batch, where no factor applies
  double latency_us = 0;
  double bandwidth_mbps = 0;       // megabits a second of each channel; 0: no limit
  Nanos timeout_ns = 5 * kSecond;  // until a worker that failed is counted out
  uint64_t model_elements = 1024;  // float32 parameters; sizes pushes and replies

  // With it the run trains, and its job says what is above of sizes, policy and clocks. Outlives
  // the run.
  const Training* training = nullptr;
  // Of a job whose model is split over teams; outlives the run. Null: a seat's step takes
  // iteration_ns.
  const SeatCosts* seat_costs = nullptr;
  // Of such a job: whose links carry the messages, in place of latency_us and bandwidth_mbps, and
  // whose servers, or devices, take time to apply updates; outlives the run. It has a device for
  // each worker, and a server for each of the job's. The parameters of clock 0 come at no cost.
  const planner::Machine* machine = nullptr;

  bool timeline = false;                          // keep the spans for TimelineJson
  std::function<double()> wall_seconds;           // a clock of the caller's; null: not measured
  std::function<void(double fraction)> progress;  // called about a hundred times
};

// A stretch of a worker's virtual time.
struct Span {
  uint32_t worker = 0;
  Clock clock = 0;
  Nanos begin = 0;
  Nanos end = 0;  // computing; the gaps between a worker's spans are waiting
  friend bool operator==(const Span&, const Span&) = default;
};

struct VirtualResult {
  std::string policy, stragglers, guarantee;
  double duration = 0;        // virtual time, in units of iteration_ns
  std::vector<Clock> clocks;  // completed iterations, by worker
  uint64_t skipped = 0;       // of these, steps that late workers did not make
  uint64_t iterations = 0;    // of all workers, steps skipped apart
  uint64_t failures = 0;      // of workers (failstop)
  double down = 0;  // worker time from a failure to the successor's start, in units of iteration_ns
  double rate = 0;  // iterations per worker and time unit
  double computing = 0;                  // worker time, in units of iteration_ns
  double waiting = 0;                    // likewise: neither computing nor down nor done
  double blocked_fraction = 0;           // waiting / (computing + waiting)
  std::vector<uint64_t> read_lags;       // reads by lag, as the checkers saw them
  Clock clock_gap_max = 0;               // shard-visible clocks
  uint64_t violations = 0;               // of the guarantee, as the checkers saw them
  std::optional<std::string> violation;  // the first
  std::optional<std::string> diverged;   // the run ended there: what was not finite
  // Of a model that is split. Virtual time from a clock that all workers have completed to the
  // next, in the mean over clocks behind the first, while which pipelines fill; 0: too few clocks.
  // And with a machine from the run's start, when all workers have the parameters, to when all have
  // those of clock 1.
  Nanos step_ns = 0, first_step_ns = 0;
  uint64_t left_out = 0;  // updates that were not finite (on_nonfinite: skip)
  uint64_t messages = 0;
  uint64_t bytes = 0;  // payloads, and 100 bytes of header a message
  uint64_t events = 0;
  double wall_seconds = 0;
  std::vector<Span> spans;        // with `timeline`
  std::vector<std::string> news;  // of the scheduler: what was re-balanced

  uint64_t reads() const;
  Clock lag_at_quantile(double q) const;
};

// Errors: InvalidArgument with the option at fault.
absl::StatusOr<VirtualResult> RunVirtual(const VirtualOptions& options);

// Lines for a terminal.
std::string ToTable(const VirtualResult& result);

// Chrome trace JSON (chrome://tracing, ui.perfetto.dev): a row a worker, compute and blocked spans.
std::string TimelineJson(const VirtualResult& result);

}  // namespace soapstone::sim
