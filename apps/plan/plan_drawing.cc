#include "apps/plan/plan_drawing.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "apps/plan/plan_report.h"

namespace soapstone::apps {
namespace {

using Json = nlohmann::json;
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
  Json events = Json::array();
  const std::string title = absl::StrCat(step.graph->model, " on ", step.machine->name());
  events.push_back(
      {{"name", "process_name"}, {"ph", "M"}, {"pid", 0}, {"args", {{"name", title}}}});
  for (const Track& track : TracksOf(step)) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 0},
                      {"tid", track.resource},
                      {"args", {{"name", track.name}}}});
    events.push_back({{"name", "thread_sort_index"},
                      {"ph", "M"},
                      {"pid", 0},
                      {"tid", track.resource},
                      {"args", {{"sort_index", track.resource}}}});
    for (const TimelineTask& task : track.tasks) {
      events.push_back({{"name", TaskName(*step.graph, task)},
                        {"cat", KindText(task.kind)},
                        {"ph", "X"},
                        {"pid", 0},
                        {"tid", track.resource},
                        {"ts", static_cast<double>(task.start) / 1e3},
                        {"dur", static_cast<double>(task.end - task.start) / 1e3},
                        {"args", {{"kind", KindText(task.kind)}, {"index", task.index}}}});
    }
  }
  const Json object = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return object.dump() + "\n";
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
