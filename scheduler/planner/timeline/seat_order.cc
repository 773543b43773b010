#include "scheduler/planner/timeline/seat_order.h"

#include <algorithm>
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

}  // namespace soapstone::planner
