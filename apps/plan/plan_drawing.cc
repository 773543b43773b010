#include "apps/plan/plan_drawing.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "apps/plan/plan_report.h"
#include "observe/timeline/trace_writer.h"

namespace soapstone::apps {
namespace {

using planner::OpGraph;
using planner::TimelineTask;

// Hues apart for neighbours in number: steps of the golden angle.
double HueOf(uint32_t number) { return static_cast<double>(number * 137 % 360); }

// What stands between quotes in Graphviz' language.
std::string EscapeDot(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}});
}

}  // namespace

std::string PlanTrace(const DrawnStep& step) {
  timeline::TraceWriter writer(timeline::TraceWriter::kUnbounded);
  writer.NameProcess(0, absl::StrCat(step.graph->model, " on ", step.machine->name()));
  for (const Track& track : TracksOf(step)) {
    const timeline::TrackId on = {.process = 0, .track = track.resource};
    writer.NameTrack(on, track.name);
    writer.PlaceTrack(on, track.resource);
    for (const TimelineTask& task : track.tasks) {
      writer.Add({.on = on,
                  .name = TaskName(*step.graph, task),
                  .category = KindText(task.kind),
                  .begin = static_cast<Nanos>(task.start),
                  .end = static_cast<Nanos>(task.end)},
                 {{"kind", KindText(task.kind)}, {"index", task.index}});
    }
  }
  return writer.Finish();
}

std::string PlanDot(const OpGraph& graph, const planner::Strategy& strategy) {
  std::map<std::string, uint32_t> colours;  // by devices
  std::string dot = absl::StrCat("digraph \"", EscapeDot(graph.model),
                                 "\" {\n  node [shape=box, style=filled, fontname=sans];\n");
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const std::string devices = DevicesText(strategy.ops[i].devices);
    const auto number = static_cast<uint32_t>(colours.size());
    const uint32_t colour = colours.try_emplace(devices, number).first->second;
    absl::StrAppendFormat(&dot, "  n%d [label=\"%s\\n%s\\n%s\", fillcolor=\"%.3f 0.35 0.95\"];\n",
                          i, EscapeDot(graph.ops[i].name),
                          SplitsText(graph.ops[i], strategy.ops[i]), devices, HueOf(colour) / 360);
  }
  for (const planner::PlanEdge& edge : graph.edges) {
    absl::StrAppendFormat(&dot, "  n%d -> n%d;\n", edge.from, edge.to);
  }
  absl::StrAppend(&dot, "}\n");
  return dot;
}

}  // namespace soapstone::apps
