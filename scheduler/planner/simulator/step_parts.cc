#include "scheduler/planner/simulator/step_parts.h"

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

// What one queue does without a pause.
struct Piece {
  Nanos start = 0, end = 0;
  int what = 0;
};

}  // namespace

StepParts PartsOf(const Machine& machine, absl::Span<const TimelineTask> timeline, Nanos step_ns) {
  StepParts parts = {.device = BusiestDevice(machine, timeline), .step_ns = step_ns};
  std::vector<Edge> edges;
  // What follows at once in one queue is one piece: a queue that is full has few.
  std::vector<Piece> last;  // by queue
  const auto add = [&edges](const Piece& piece) {
    if (piece.end == piece.start) return;
    edges.push_back({piece.start, piece.what, 1});
    edges.push_back({piece.end, piece.what, -1});
  };
  for (const TimelineTask& task : timeline) {
    if (Computes(task) && task.resource != parts.device) continue;
    const int what = Computes(task) ? 0 : task.kind == TaskKind::kSynchronize ? 2 : 1;
    if (task.resource >= last.size()) last.resize(task.resource + 1);
    Piece& piece = last[task.resource];
    if (piece.what == what && piece.start <= task.start && task.start <= piece.end) {
      piece.end = std::max(piece.end, task.end);
      continue;
    }
    add(piece);
    piece = {task.start, task.end, what};
  }
  for (const Piece& piece : last) add(piece);
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
