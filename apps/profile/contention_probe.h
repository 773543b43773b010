// How much slower processes of one machine compute while others of it do: cores and memory are
// shared. Called by `soapstone plan --measure_machine`.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "models/graph/graph.h"

namespace soapstone::apps {

// Each at least about 1: the time of one among several, beside its time alone.
struct Slowdown {
  double products = 1;  // of float32, by the kernel that Linear operators have
  double memory = 1;    // STREAM's triad over arrays that no cache holds
};

// `processes` (threads here, which nothing but the address space sets apart) do the same work at
// once and meet when all are done, over and over, as workers of a synchronous step do; with
// t_k the median time from meeting to meeting of k, a slowdown is t_k / t_1. The work takes one
// alone `step`: how long matters, as an operating system does not divide two cores among three
// processes within a few of its ticks, but lets one of them wait. Takes about 2 s.
absl::StatusOr<Slowdown> MeasureSlowdown(uint32_t processes, Nanos step);

// The same for processes that run training steps of `samples` samples of this model, which share
// caches besides; one number for both.
absl::StatusOr<Slowdown> MeasureSlowdownOfSteps(const models::Graph& graph, int64_t samples,
                                                uint32_t processes);

}  // namespace soapstone::apps
