// RunSeed: the fuzzer. Drives a World by a seeded random draw, faults among the choices, until the
// job is over or something is wrong. A seed is a run: the same options and seed give the same
// steps.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/world.h"
#include "sim/world/seeded_walk.h"

namespace soapstone::sim {

struct SeedOptions {
  WorldOptions world;
  // A fault that is enabled is drawn with this probability at each step.
  double fault_probability = 0.03;
  // S5: a job that is not over after so many steps is stuck. 0: steps of a job without faults,
  // times 20.
  uint64_t steps_max = 0;
  size_t trace_lines = 60;  // kept of the end
};

struct SeedReport : WalkReport {
  std::vector<uint64_t> read_lags;
  Clock clock_gap_max = 0;
  uint64_t share_changes = 0;  // by re-balancing
  uint64_t captured = 0;       // shards, for checkpoints
};

// Error: InvalidArgument where the world cannot be made.
absl::StatusOr<SeedReport> RunSeed(const SeedOptions& options, uint64_t seed);

}  // namespace soapstone::sim
