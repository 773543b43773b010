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
using planner::TaskKind;
using planner::TimelineTask;

constexpr double kSvgWidth = 1600;
constexpr double kSvgMargin = 150;  // left, for the names of tracks
constexpr double kSvgRow = 16;
constexpr double kSvgLeast = 0.2;  // of a bar's width: narrower ones are not seen

// Devices, links, servers: as the simulator numbers its queues.
std::string ResourceName(const planner::Machine& machine, uint32_t resource) {
  const auto devices = static_cast<uint32_t>(machine.devices().size());
  const auto links = static_cast<uint32_t>(machine.links().size());
  if (resource < devices) return machine.devices()[resource].name;
  if (resource < devices + links) return machine.links()[resource - devices].name;
  return machine.servers()[resource - devices - links].name;
}

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

std::string TaskName(const OpGraph& graph, const TimelineTask& task) {
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

bool Computes(const TimelineTask& task) {
  return task.kind == TaskKind::kForward || task.kind == TaskKind::kBackward;
}

// Hues apart for neighbours in number: steps of the golden angle.
double HueOf(uint32_t number) { return static_cast<double>(number * 137 % 360); }

std::string ColourOf(const OpGraph& graph, const TimelineTask& task) {
  if (task.kind == TaskKind::kSynchronize) return "#8a8a8a";
  if (!Computes(task)) return "#c9b458";
  return absl::StrFormat("hsl(%.0f,60%%,%d%%)", HueOf(graph.ops[task.of].group),
                         task.kind == TaskKind::kForward ? 70 : 52);
}

// Tasks that occupy a queue, by it.
std::map<uint32_t, std::vector<TimelineTask>> TracksOf(const DrawnStep& step) {
  std::map<uint32_t, std::vector<TimelineTask>> tracks;
  for (const TimelineTask& task : step.timeline) {
    tracks[task.resource].push_back(task);
  }
  return tracks;
}

std::string EscapeXml(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

}  // namespace

std::string PlanTrace(const DrawnStep& step) {
  Json events = Json::array();
  const std::string title = absl::StrCat(step.graph->model, " on ", step.machine->name());
  events.push_back(
      {{"name", "process_name"}, {"ph", "M"}, {"pid", 0}, {"args", {{"name", title}}}});
  for (const auto& [resource, tasks] : TracksOf(step)) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 0},
                      {"tid", resource},
                      {"args", {{"name", ResourceName(*step.machine, resource)}}}});
    events.push_back({{"name", "thread_sort_index"},
                      {"ph", "M"},
                      {"pid", 0},
                      {"tid", resource},
                      {"args", {{"sort_index", resource}}}});
    for (const TimelineTask& task : tasks) {
      events.push_back({{"name", TaskName(*step.graph, task)},
                        {"cat", KindText(task.kind)},
                        {"ph", "X"},
                        {"pid", 0},
                        {"tid", resource},
                        {"ts", static_cast<double>(task.start) / 1e3},
                        {"dur", static_cast<double>(task.end - task.start) / 1e3},
                        {"args", {{"kind", KindText(task.kind)}, {"index", task.index}}}});
    }
  }
  const Json object = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return object.dump() + "\n";
}

std::string PlanSvg(const DrawnStep& step) {
  const std::map<uint32_t, std::vector<TimelineTask>> tracks = TracksOf(step);
  Nanos end = 1;
  for (const TimelineTask& task : step.timeline) end = std::max(end, task.end);
  const double scale = (kSvgWidth - kSvgMargin) / static_cast<double>(end);
  const double height = kSvgRow * static_cast<double>(tracks.size() + 2);
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
      "font-family=\"sans-serif\" font-size=\"10\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
      "<text x=\"4\" y=\"11\">%s on %s: %.3f ms</text>\n",
      kSvgWidth, height, EscapeXml(step.graph->model), EscapeXml(step.machine->name()),
      static_cast<double>(end) / 1e6);
  double y = kSvgRow;
  for (const auto& [resource, tasks] : tracks) {
    absl::StrAppendFormat(&svg, "<text x=\"4\" y=\"%.0f\">%s</text>\n", y + 11,
                          EscapeXml(ResourceName(*step.machine, resource)));
    for (const TimelineTask& task : tasks) {
      const double width = std::max(static_cast<double>(task.end - task.start) * scale, kSvgLeast);
      absl::StrAppendFormat(
          &svg,
          "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\"><title>%s %s "
          "%.3f-%.3f ms</title></rect>\n",
          kSvgMargin + static_cast<double>(task.start) * scale, y + 1, width, kSvgRow - 2,
          ColourOf(*step.graph, task), EscapeXml(TaskName(*step.graph, task)), KindText(task.kind),
          static_cast<double>(task.start) / 1e6, static_cast<double>(task.end) / 1e6);
    }
    y += kSvgRow;
  }
  absl::StrAppend(&svg, "</svg>\n");
  return svg;
}

std::string PlanDot(const OpGraph& graph, const planner::Strategy& strategy) {
  std::map<std::string, uint32_t> colours;  // by devices
  std::string dot = absl::StrCat("digraph \"", graph.model,
                                 "\" {\n  node [shape=box, style=filled, fontname=sans];\n");
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const std::string devices = DevicesText(strategy.ops[i].devices);
    const auto number = static_cast<uint32_t>(colours.size());
    const uint32_t colour = colours.try_emplace(devices, number).first->second;
    absl::StrAppendFormat(&dot, "  n%d [label=\"%s\\n%s\\n%s\", fillcolor=\"%.3f 0.35 0.95\"];\n",
                          i, graph.ops[i].name, SplitsText(graph.ops[i], strategy.ops[i]), devices,
                          HueOf(colour) / 360);
  }
  for (const planner::PlanEdge& edge : graph.edges) {
    absl::StrAppendFormat(&dot, "  n%d -> n%d;\n", edge.from, edge.to);
  }
  absl::StrAppend(&dot, "}\n");
  return dot;
}

}  // namespace soapstone::apps
