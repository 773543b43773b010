// The timeline of a step, whose devices serve in the order of readiness.
#include <vector>

#include "scheduler/planner/simulator/simulator.h"
#include "scheduler/planner/simulator/timeline_run.h"

namespace soapstone::planner {

Nanos Simulator::Simulate() {
  if (in_micro_batches()) return SimulateInOrder(kNever);
  return Run<false, false, false>(this, kNever, 1).Simulate(nullptr);
}

Nanos Simulator::SimulateUpTo(Nanos cutoff) {
  if (in_micro_batches()) return SimulateInOrder(cutoff);
  return Run<false, false, true>(this, cutoff, 1).Simulate(nullptr);
}

Nanos Simulator::StepTime() {
  if (!step_known_) step_ = Simulate();
  step_known_ = true;
  return step_;
}

std::vector<TimelineTask> Simulator::Timeline() {
  std::vector<TimelineTask> timeline;
  record_ = &timeline;
  const Nanos step = Simulate();
  record_ = nullptr;
  if (step == kNever) timeline.clear();
  return timeline;
}

}  // namespace soapstone::planner
