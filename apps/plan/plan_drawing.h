// What other programs draw of a planned step: its timeline for ui.perfetto.dev, and the graph of
// its operators by device for Graphviz. Texts from values. The project's own drawing is plan_svg.h.
#pragma once

#include <string>

#include "apps/plan/plan_tracks.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::apps {

// Trace Event Format: a track for each device, link and server that does anything.
std::string PlanTrace(const DrawnStep& step);

// Operators coloured by the devices of their parts.
std::string PlanDot(const planner::OpGraph& graph, const planner::Strategy& strategy);

}  // namespace soapstone::apps
