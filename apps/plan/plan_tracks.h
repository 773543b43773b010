// The timeline of a planned step by who is busy: a track for each device, link and server that does
// anything. What drawings and traces of a step are made from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/simulator/simulator.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"

namespace soapstone::apps {

struct DrawnStep {
  const planner::OpGraph* graph = nullptr;
  const planner::Machine* machine = nullptr;
  absl::Span<const planner::TimelineTask> timeline;
};

enum class TrackKind : uint8_t { kDevice, kLink, kServer };

struct Track {
  TrackKind kind = TrackKind::kDevice;
  uint32_t resource = 0;  // as the simulator numbers its queues: devices, links, servers
  std::string name;
  std::vector<planner::TimelineTask> tasks;  // by start
};

// Ascending by resource.
std::vector<Track> TracksOf(const DrawnStep& step);

// "forward", "backward", "transfer", "gradient", "synchronization".
const char* KindText(planner::TaskKind kind);
// The operator that is computed or synchronized; of a transfer "conv1 to conv2".
std::string TaskName(const planner::OpGraph& graph, const planner::TimelineTask& task);

}  // namespace soapstone::apps
