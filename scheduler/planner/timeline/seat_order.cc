#include "scheduler/planner/timeline/seat_order.h"

#include <algorithm>
#include <map>
#include <vector>

namespace soapstone::planner {

Order SeatOrder(const OpGraph& graph, uint32_t devices, absl::Span<const TimelineTask> timeline) {
  if (timeline.empty()) return {};
  std::vector<const TimelineTask*> tasks;
  for (const TimelineTask& task : timeline) {
    const bool backward = task.kind == TaskKind::kBackward;
    if (!backward && task.kind != TaskKind::kForward) continue;
    if (!backward || HasBackward(graph, graph.ops[task.of])) tasks.push_back(&task);
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const TimelineTask* a, const TimelineTask* b) {
    return a->start < b->start;
  });
  Order order(devices);
  for (const TimelineTask* task : tasks) {
    order[task->resource].push_back(
        {.op = task->of, .part = task->index, .backward = task->kind == TaskKind::kBackward});
  }
  return order;
}

PlannedTimes SeatTimes(const Order& order, absl::Span<const TimelineTask> timeline) {
  if (timeline.empty()) return {};
  std::map<TaskRef, PlannedSpan> spans;
  Nanos first = kNever;
  for (const TimelineTask& task : timeline) {
    const bool backward = task.kind == TaskKind::kBackward;
    if (!backward && task.kind != TaskKind::kForward) continue;
    spans[{task.of, task.index, backward}] = {.begin = task.start, .end = task.end};
    first = std::min(first, task.start);
  }
  PlannedTimes times(order.size());
  for (size_t seat = 0; seat < order.size(); ++seat) {
    for (const TaskRef& task : order[seat]) {
      const PlannedSpan& span = spans.at(task);
      times[seat].push_back({.begin = span.begin - first, .end = span.end - first});
    }
  }
  return times;
}

}  // namespace soapstone::planner
