#include "scheduler/planner/simulator/step_parts.h"

#include <algorithm>

namespace soapstone::planner {
namespace {

bool Computes(const TimelineTask& task) {
  return task.kind == TaskKind::kForward || task.kind == TaskKind::kBackward;
}

}  // namespace

void StepPartsFold::Close(const Piece& piece) {
  if (piece.end == piece.start) return;
  edges_.push_back({piece.start, piece.what, 1});
  edges_.push_back({piece.end, piece.what, -1});
}

void StepPartsFold::Add(const TimelineTask& task) {
  if (Computes(task) && task.resource != device_) return;
  const int what = Computes(task) ? 0 : task.kind == TaskKind::kSynchronize ? 2 : 1;
  if (task.resource >= last_.size()) last_.resize(task.resource + 1);
  Piece& piece = last_[task.resource];
  if (piece.what == what && piece.start <= task.start && task.start <= piece.end) {
    piece.end = std::max(piece.end, task.end);
    return;
  }
  Close(piece);
  piece = {task.start, task.end, what};
}

StepParts StepPartsFold::Parts(Nanos step_ns) {
  StepParts parts = {.device = device_, .step_ns = step_ns};
  for (const Piece& piece : last_) Close(piece);
  edges_.push_back({step_ns, 0, 0});
  std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
  int open[3] = {0, 0, 0};
  Nanos now = 0;
  for (const Edge& edge : edges_) {
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

StepParts PartsOf(Simulator* simulator) {
  const std::vector<Nanos>& compute = simulator->compute_ns();
  const auto device =
      static_cast<uint32_t>(std::max_element(compute.begin(), compute.end()) - compute.begin());
  StepPartsFold fold(device);
  const Nanos step = simulator->VisitTimeline([&](const TimelineTask& task) { fold.Add(task); });
  if (step == kNever) return StepPartsFold(device).Parts(kNever);
  return fold.Parts(simulator->StepTime());
}

}  // namespace soapstone::planner
