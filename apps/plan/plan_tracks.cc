#include "apps/plan/plan_tracks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace soapstone::apps {

using planner::TaskKind;
using planner::TimelineTask;

const char* KindText(TaskKind kind) {
  switch (kind) {
    case TaskKind::kForward:
      return "forward";
    case TaskKind::kBackward:
      return "backward";
    case TaskKind::kTransfer:
      return "transfer";
    case TaskKind::kGradient:
      return "gradient";
    case TaskKind::kSynchronize:
      return "synchronization";
  }
  return "";
}

std::string TaskName(const planner::OpGraph& graph, const TimelineTask& task) {
  switch (task.kind) {
    case TaskKind::kForward:
    case TaskKind::kBackward:
      return graph.ops[task.of].name;
    case TaskKind::kTransfer:
      return absl::StrCat(graph.ops[graph.edges[task.of].from].name, " to ",
                          graph.ops[graph.edges[task.of].to].name);
    case TaskKind::kGradient:
      return absl::StrCat(graph.ops[graph.edges[task.of].to].name, " to ",
                          graph.ops[graph.edges[task.of].from].name);
    case TaskKind::kSynchronize:
      return graph.ops[graph.groups[task.of].front()].name;
  }
  return "";
}

std::vector<Track> TracksOf(const DrawnStep& step) {
  const planner::Machine& machine = *step.machine;
  const auto devices = static_cast<uint32_t>(machine.devices().size());
  const auto links = static_cast<uint32_t>(machine.links().size());
  std::map<uint32_t, Track> tracks;
  for (const TimelineTask& task : step.timeline) {
    Track& track = tracks[task.resource];
    track.tasks.push_back(task);
    if (track.tasks.size() > 1) continue;
    track.resource = task.resource;
    if (task.resource < devices) {
      track.name = machine.devices()[task.resource].name;
    } else if (task.resource < devices + links) {
      track.kind = TrackKind::kLink;
      track.name = machine.links()[task.resource - devices].name;
    } else {
      track.kind = TrackKind::kServer;
      track.name = machine.servers()[task.resource - devices - links].name;
    }
  }
  std::vector<Track> ordered;
  for (auto& [resource, track] : tracks) {
    std::stable_sort(
        track.tasks.begin(), track.tasks.end(),
        [](const TimelineTask& a, const TimelineTask& b) { return a.start < b.start; });
    ordered.push_back(std::move(track));
  }
  return ordered;
}

}  // namespace soapstone::apps
