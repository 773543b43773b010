// What a step's time is made of, read off its timeline. For reports.
#pragma once

#include "absl/types/span.h"
#include "base/ids.h"
#include "scheduler/planner/simulator/simulator.h"
#include "strategy/machine.h"

namespace soapstone::planner {

// Of the device that computes longest, the first of equals. The four parts add up to the step:
//   compute          it computes
//   communication    it does not, and some transfer between operators is under way on some link
//   synchronization  neither, and gradients or parameters are on their way or being applied
//   idle             none of these: it waits for another device to compute, or for a latency
struct StepParts {
  uint32_t device = 0;
  Nanos step_ns = 0;
  Nanos compute_ns = 0, communication_ns = 0, synchronization_ns = 0, idle_ns = 0;
};

// step_ns: Simulator::StepTime(), which may end with a latency behind the last task.
StepParts PartsOf(const Machine& machine, absl::Span<const TimelineTask> timeline, Nanos step_ns);

}  // namespace soapstone::planner
