#include "scheduler/planner/step_parts.h"

#include <algorithm>
#include <vector>

namespace soapstone::planner {
namespace {

bool Computes(const TimelineTask& task) {
  return task.kind == TaskKind::kForward || task.kind == TaskKind::kBackward;
}

uint32_t BusiestDevice(const Machine& machine, absl::Span<const TimelineTask> timeline) {
  std::vector<Nanos> busy(machine.devices().size(), 0);
  for (const TimelineTask& task : timeline) {
    if (Computes(task)) busy[task.resource] += task.end - task.start;
  }
  return static_cast<uint32_t>(std::max_element(busy.begin(), busy.end()) - busy.begin());
}

// A task begins (+1) or ends (−1).
struct Edge {
  Nanos at = 0;
  int what = 0;  // 0: computes, 1: transfers, 2: synchronizes
  int change = 0;
};

}  // namespace

StepParts PartsOf(const Machine& machine, absl::Span<const TimelineTask> timeline, Nanos step_ns) {
  StepParts parts = {.device = BusiestDevice(machine, timeline), .step_ns = step_ns};
  std::vector<Edge> edges;
  for (const TimelineTask& task : timeline) {
    if (Computes(task) && task.resource != parts.device) continue;
    const int what = Computes(task) ? 0 : task.kind == TaskKind::kSynchronize ? 2 : 1;
    edges.push_back({task.start, what, 1});
    edges.push_back({task.end, what, -1});
  }
  edges.push_back({parts.step_ns, 0, 0});
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
  int open[3] = {0, 0, 0};
  Nanos now = 0;
  for (const Edge& edge : edges) {
    Nanos* part = open[0] > 0   ? &parts.compute_ns
                  : open[1] > 0 ? &parts.communication_ns
                  : open[2] > 0 ? &parts.synchronization_ns
                                : &parts.idle_ns;
    *part += edge.at - now;
    now = edge.at;
    open[edge.what] += edge.change;
  }
  return parts;
}

}  // namespace soapstone::planner
