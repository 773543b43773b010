// Drawings of a planned step: its timeline for ui.perfetto.dev and as SVG, and the graph of its
// operators by device for Graphviz. Texts from values.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "scheduler/planner/simulator/simulator.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::apps {

struct DrawnStep {
  const planner::OpGraph* graph = nullptr;
  const planner::Machine* machine = nullptr;
  absl::Span<const planner::TimelineTask> timeline;
};

// Trace Event Format: a track for each device, link and server that does anything.
std::string PlanTrace(const DrawnStep& step);

// The same tracks below one another; operators of a weight group have one colour, transfers and
// synchronization two of their own. Titles tell what a bar is.
std::string PlanSvg(const DrawnStep& step);

// Operators coloured by the devices of their parts.
std::string PlanDot(const planner::OpGraph& graph, const planner::Strategy& strategy);

}  // namespace soapstone::apps
