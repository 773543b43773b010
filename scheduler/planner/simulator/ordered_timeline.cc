// Timelines whose devices serve micro-batch by micro-batch: of graphs in micro-batches, and of many
// iterations.
#include <algorithm>
#include <vector>

#include "scheduler/planner/timeline/timeline.h"
#include "scheduler/planner/timeline/timeline_run.h"

namespace soapstone::planner {
namespace {

constexpr uint32_t kWindow = 32;  // iterations of which the mean is taken, at least
// Iterations that fill the queues.
uint32_t Before(uint32_t together) { return std::max<uint32_t>(8, together); }

}  // namespace

Nanos Timeline::StepInOrder(Nanos cutoff) {
  return cutoff == kNever ? Run<true, false, false>(this, kNever, 1).Simulate(nullptr)
                          : Run<true, false, true>(this, cutoff, 1).Simulate(nullptr);
}

Nanos Timeline::Iteration() {
  const uint32_t together = in_.now.staleness() + 1;
  const uint32_t before = Before(together);
  const uint32_t window = (kWindow + together - 1) / together * together;
  std::vector<Nanos> ends;
  const uint32_t iterations = before + window + together;
  if (Run<true, true, false>(this, kNever, iterations).Simulate(&ends) == kNever) return kNever;
  const Nanos mean = (ends[before + window - 1] - ends[before - 1]) / window;
  return std::max(mean, in_.loads.BusiestQueue());
}

std::vector<TimelineTask> Timeline::RecordIteration() {
  std::vector<TimelineTask> tasks;
  const auto keep = [&](const TimelineTask& task) { tasks.push_back(task); };
  const Visitor visit = keep;
  visit_ = &visit;
  visited_ = Before(in_.now.staleness() + 1) + kWindow / 2;
  if (Iteration() == kNever) tasks.clear();
  visit_ = nullptr;
  return tasks;
}

}  // namespace soapstone::planner
