#include "apps/plan/plan_svg.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/graph/graph.h"
#include "strategy/machine_text.h"

namespace soapstone::apps {
namespace {

using planner::TaskKind;
using planner::TimelineTask;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kMachine[] = R"(
name: "pair & <co>"
kinds { name: "gpu" tflops: 1 memory_gbytes_per_s: 100 memory_gib: 4 launch_us: 5 }
nodes {
  name: "node" kind: "gpu" devices: 4 count: 1
  mesh { gbytes_per_s: 10 }
  host { gbytes_per_s: 10 }
  servers: 1 server_apply_gbytes_per_s: 10
}
)";

struct Drawn {
  planner::Machine machine;
  planner::OpGraph graph;

  std::string Svg(const std::vector<TimelineTask>& timeline) const {
    return PlanSvg({.graph = &graph, .machine = &machine, .timeline = timeline});
  }
};

Drawn MakeDrawn(const std::string& name, const std::string& machine_text = kMachine) {
  models::GraphBuilder b("m");
  models::TensorId x = b.Input("input", models::DataType::kFloat32, {4});
  x = b.Apply(name, compute::Linear{.outputs = 4}, {x});
  b.Loss("loss", x);
  auto machine = planner::ParseMachine(machine_text, "pair");
  EXPECT_TRUE(machine.ok()) << machine.status();
  auto graph = planner::MakeOpGraph(*b.Build(), {.batch = 8});
  EXPECT_TRUE(graph.ok()) << graph.status();
  return {*std::move(machine), *std::move(graph)};
}

TimelineTask Task(TaskKind kind, uint32_t resource, Nanos start, Nanos end) {
  return {.kind = kind, .resource = resource, .ready = start, .start = start, .end = end};
}

// Tags are closed in their order, attributes are quoted, `&` begins an entity, and there is nothing
// but characters. Empty: well formed; else what is wrong.
std::string FaultOf(absl::string_view xml) {
  std::vector<std::string> open;
  for (size_t i = 0; i < xml.size(); ++i) {
    const auto c = static_cast<unsigned char>(xml[i]);
    if (c < 0x20 && c != '\n') return absl::StrCat("control character at ", i);
    if (c == '>') return absl::StrCat("'>' at ", i);
    if (c == '&') {
      const size_t end = xml.find(';', i);
      if (end == xml.npos || end - i > 5) return absl::StrCat("'&' at ", i);
    }
    if (c != '<') continue;
    size_t end = i + 1;
    for (bool quoted = false; end < xml.size() && (quoted || xml[end] != '>'); ++end) {
      if (xml[end] == '"') quoted = !quoted;
      if (xml[end] == '<') return absl::StrCat("'<' in a tag at ", end);
    }
    if (end == xml.size()) return "a tag without end";
    const absl::string_view tag = xml.substr(i + 1, end - i - 1);
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return absl::StrCat("</", tag.substr(1));
      open.pop_back();
    } else if (tag.back() != '/') {
      open.emplace_back(tag.substr(0, tag.find(' ')));
    }
    i = end;
  }
  return open.empty() ? "" : absl::StrCat("<", open.back(), "> is not closed");
}

size_t CountOf(absl::string_view text, absl::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(PlanSvg, HasAnAxisWithUnitsAndALegendOfWhatIsThere) {
  const Drawn drawn = MakeDrawn("fc");
  const std::string svg = drawn.Svg({Task(TaskKind::kForward, 0, 0, 20'000'000),
                                     Task(TaskKind::kBackward, 0, 20'000'000, 50'000'000)});
  EXPECT_EQ(FaultOf(svg), "");
  EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 1000 "));
  for (const char* tick : {">0 ms<", ">5 ms<", ">25 ms<", ">50 ms<"}) {
    EXPECT_THAT(svg, HasSubstr(absl::StrCat("class=\"axis\"", tick)));
  }
  EXPECT_THAT(svg, HasSubstr("a step of 50 ms"));
  EXPECT_EQ(CountOf(svg, "class=\"legend\""), 2u);
  EXPECT_THAT(svg, HasSubstr("class=\"legend\">forward<"));
  EXPECT_THAT(svg, HasSubstr("class=\"legend\">backward<"));
  // Not by colour alone.
  EXPECT_THAT(svg, HasSubstr(".backward{fill:url(#look-backward)}"));
  EXPECT_THAT(svg, HasSubstr("<pattern id=\"look-backward\""));
  EXPECT_THAT(svg, HasSubstr("fc, backward, 20 to 50 ms</title>"));
}

TEST(PlanSvg, UnitsSuitTheStep) {
  const Drawn drawn = MakeDrawn("fc");
  EXPECT_THAT(drawn.Svg({Task(TaskKind::kForward, 0, 0, 900)}), HasSubstr(">100 ns<"));
  EXPECT_THAT(drawn.Svg({Task(TaskKind::kForward, 0, 0, 900'000)}), HasSubstr(">100 \u00b5s<"));
  EXPECT_THAT(drawn.Svg({Task(TaskKind::kForward, 0, 0, 30'000'000'000)}), HasSubstr(">5 s<"));
  EXPECT_EQ(FaultOf(drawn.Svg({})), "");
}

TEST(PlanSvg, NamesAreEscaped) {
  const Drawn drawn = MakeDrawn("a<b & \"c\">\x01\xff");
  const std::string svg = drawn.Svg({Task(TaskKind::kForward, 0, 0, 1000)});
  EXPECT_EQ(FaultOf(svg), "");
  EXPECT_THAT(svg, HasSubstr("a&lt;b &amp; &quot;c&quot;&gt;??"));
  EXPECT_THAT(svg, HasSubstr("pair &amp; &lt;co&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("a<b")));
  const Drawn long_name = MakeDrawn(std::string(5000, 'x'));
  EXPECT_LT(long_name.Svg({Task(TaskKind::kForward, 0, 0, 1000)}).size(), 5000u);
}

// Bars begin at the same place whatever the names are, and devices of a node are told apart.
TEST(PlanSvg, ALongNodesNameLeavesTheDevicesNumberToBeSeen) {
  std::string text = kMachine;
  const std::string node = "ip-10-0-12-34.eu-central-1.compute.internal-";
  text.replace(text.find("\"node\""), 6, "\"" + node + "\"");
  const std::string svg = MakeDrawn("dense", text).Svg({Task(TaskKind::kForward, 0, 0, 1000)});
  EXPECT_EQ(FaultOf(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr(node)));
  EXPECT_THAT(svg, ContainsRegex(">ip-10-0-12-34[.][.][^<]*:0<"));
}

TEST(PlanSvg, LinksThatAreEqualAreOneRowAndIdleOnesNone) {
  const Drawn drawn = MakeDrawn("fc");
  const auto devices = static_cast<uint32_t>(drawn.machine.devices().size());
  const size_t links = drawn.machine.links().size();
  const std::string svg =
      drawn.Svg({Task(TaskKind::kForward, 0, 0, 1000), Task(TaskKind::kForward, 1, 0, 1000),
                 Task(TaskKind::kSynchronize, devices, 1000, 1500),
                 Task(TaskKind::kSynchronize, devices + 1, 1000, 1500)});
  EXPECT_EQ(CountOf(svg, "<g transform"), 3u);  // two devices, one row of links
  EXPECT_THAT(svg, HasSubstr(" \u00d7 2</text>"));
  EXPECT_THAT(svg,
              HasSubstr(absl::StrCat("do nothing: ", links - 2, " of ", links, " links, 1 of")));
}

TEST(PlanSvg, TenThousandTasksStayBelowAMegabyte) {
  const Drawn drawn = MakeDrawn(std::string(200, '&'));
  const auto resources =
      static_cast<uint32_t>(drawn.machine.devices().size() + drawn.machine.links().size());
  for (const uint32_t count : {10'000u, 1'000'000u}) {
    std::vector<TimelineTask> tasks;
    for (uint32_t i = 0; i < count; ++i) {
      const Nanos start = i / resources * 1000;
      tasks.push_back(Task(i / resources % 2 == 0 ? TaskKind::kForward : TaskKind::kBackward,
                           i % resources, start, start + 1000 - i % resources));
    }
    const std::string svg = drawn.Svg(tasks);
    EXPECT_LT(svg.size(), 1'000'000u) << count;
    EXPECT_EQ(FaultOf(svg), "") << count;
  }
}

TEST(PlanSvg, WhatIsNarrowerThanAUnitIsOneBarOfItsKind) {
  const Drawn drawn = MakeDrawn("fc");
  std::vector<TimelineTask> tasks;
  for (Nanos i = 0; i < 20'000; ++i) {
    tasks.push_back(
        Task(i < 10'000 ? TaskKind::kForward : TaskKind::kBackward, 0, i * 1000, i * 1000 + 1000));
  }
  const std::string svg = drawn.Svg(tasks);
  EXPECT_THAT(svg, HasSubstr("10000 tasks, forward, 0 to 10 ms"));
  EXPECT_THAT(svg, HasSubstr("10000 tasks, backward, 10 to 20 ms"));
  EXPECT_LT(svg.size(), 5000u);
}

}  // namespace
}  // namespace soapstone::apps
