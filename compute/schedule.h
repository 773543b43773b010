// Learning-rate schedules as values: a function of the clock alone, so that every shard computes
// the same rate without being told. Shards call LearningRate before ApplyGradient.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "compute/optimizer.h"

namespace soapstone::compute {

enum class ScheduleKind : uint8_t { kConstant, kStep, kCosine };

struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::kConstant;
  Clock warmup = 0;   // clocks of linear growth from lr/warmup to lr
  Clock every = 1;    // step: clocks between reductions
  double factor = 1;  // step: what each multiplies the rate by
  double min = 0;     // cosine: the last rate as a share of the first

  friend bool operator==(const ScheduleSpec&, const ScheduleSpec&) = default;
};

// Parses "constant", "step:every=500,factor=0.1", "cosine:min=0.01", each also with warmup=N.
// Empty text is "constant". Errors: unknown name (lists the known ones), unknown key, bad value.
absl::StatusOr<ScheduleSpec> ParseSchedule(std::string_view text);

// The rate of the update at `clock` (from 0) of a run of `total_clocks`.
double LearningRate(const OptimizerSpec& optimizer, const ScheduleSpec& schedule, Clock clock,
                    Clock total_clocks);

}  // namespace soapstone::compute
