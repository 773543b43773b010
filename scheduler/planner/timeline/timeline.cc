// The timeline of a step, whose devices serve in the order of readiness.
#include "scheduler/planner/timeline/timeline.h"

#include <vector>

#include "scheduler/planner/timeline/timeline_run.h"

namespace soapstone::planner {

Timeline::Timeline(const StrategyState* now, TaskGraph* graph, const Loads* loads,
                   const Bounds* bounds)
    : in_{now->connections(), *now, *graph, *loads, *bounds} {}

Nanos Timeline::Step() {
  if (in_micro_batches()) return StepInOrder(kNever);
  return Run<false, false, false>(this, kNever, 1).Simulate(nullptr);
}

Nanos Timeline::StepUpTo(Nanos cutoff) {
  if (in_micro_batches()) return StepInOrder(cutoff);
  return Run<false, false, true>(this, cutoff, 1).Simulate(nullptr);
}

Nanos Timeline::Visit(Visitor visit) {
  visit_ = &visit;
  const Nanos step = Step();
  visit_ = nullptr;
  return step;
}

std::vector<TimelineTask> Timeline::Record() {
  std::vector<TimelineTask> timeline;
  const Nanos step = Visit([&](const TimelineTask& task) { timeline.push_back(task); });
  if (step == kNever) timeline.clear();
  return timeline;
}

}  // namespace soapstone::planner
