#include "sim/fault_world.h"

#include <algorithm>

#include "base/status_macros.h"

namespace soapstone::sim {
namespace {

uint64_t StepsMax(const SeedOptions& options) {
  if (options.steps_max > 0) return options.steps_max;
  const JobShape& shape = options.world.shape;
  const uint64_t messages_a_step =
      uint64_t{shape.shards} * (4 + 2 * std::max(shape.micro_batch_count, shape.buckets_per_shard));
  return 20 * (100 + shape.workers * static_cast<uint64_t>(shape.clocks) * messages_a_step);
}

}  // namespace

absl::StatusOr<SeedReport> RunSeed(const SeedOptions& options, uint64_t seed) {
  SOAP_ASSIGN_OR_RETURN(World world, World::Make(options.world));
  SeedReport report;
  Walk({.fault_probability = options.fault_probability,
        .steps_max = StepsMax(options),
        .trace_lines = options.trace_lines},
       seed, &world, &report);
  report.read_lags = world.checkers().read_lags();
  report.clock_gap_max = world.checkers().clock_gap_max();
  report.share_changes = world.share_changes();
  report.captured = world.cut().captured();
  return report;
}

}  // namespace soapstone::sim
