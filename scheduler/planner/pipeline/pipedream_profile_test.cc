#include "scheduler/planner/pipeline/pipedream_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/zoo/zoo.h"
#include "scheduler/planner/planner_fixture.h"

namespace soapstone::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string NodeLine(int number, const std::string& what) {
  return absl::StrCat("node", number, " -- ", what,
                      " -- forward_compute_time=1.500, backward_compute_time=2.500, "
                      "activation_size=",
                      100 * number, ".000, parameter_size=", 10 * number, ".000\n");
}

// Not in order, as profilers write them; 2 feeds 3 and 4, which 10 adds.
std::string Branches() {
  return absl::StrCat(NodeLine(10, "Add"), NodeLine(2, "Conv2d(3, 8, kernel_size=(3, 3))"),
                      NodeLine(4, "ReLU(inplace)"), NodeLine(3, "Dropout(p=0.5)"),
                      NodeLine(1, "Input0"),
                      "\tnode1 -- node2\n\tnode2 -- node3\n\tnode2 -- node4\n"
                      "\tnode4 -- node10\n\tnode3 -- node10\n");
}

std::string ErrorOf(const std::string& text) {
  std::string error(ParseProfile(text, "f").status().message());
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

TEST(PipeDreamProfileTest, ReadsNodesInAnOrderInWhichTheyCanRun) {
  const absl::StatusOr<Profile> profile = ParseProfile(Branches(), "f");
  ASSERT_TRUE(profile.ok()) << profile.status();
  std::vector<std::string> names;
  for (const ProfileNode& node : profile->nodes) names.push_back(node.name);
  EXPECT_THAT(names, ElementsAre("node1", "node2", "node3", "node4", "node10"));
  EXPECT_EQ(profile->nodes[1],
            (ProfileNode{"node2", "Conv2d(3, 8, kernel_size=(3, 3))", 1.5, 2.5, 200, 20}));
  using Edge = std::pair<uint32_t, uint32_t>;
  EXPECT_THAT(profile->edges,
              ElementsAre(Edge(0, 1), Edge(1, 2), Edge(1, 3), Edge(2, 4), Edge(3, 4)));
}

TEST(PipeDreamProfileTest, ReadsListsAndStages) {
  const absl::StatusOr<Profile> profile = ParseProfile(
      "node1 -- LSTM(4, 4) -- forward_compute_time=1.0, backward_compute_time=0.000, "
      "activation_size=[6.5; 1.0; 0.5], parameter_size=3.000 -- stage_id=2\r\n\n",
      "f");
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->nodes[0], (ProfileNode{"node1", "LSTM(4, 4)", 1, 0, 8, 3}));
}

TEST(PipeDreamProfileTest, IsReadBackAsItWas) {
  const Profile profile = *ParseProfile(Branches(), "f");
  EXPECT_EQ(*ParseProfile(TextOf(profile), "f"), profile);
}

// What is read by a later layer crosses every cut on the way, once; inputs cross none.
TEST(PipeDreamProfileTest, LayersCountWhatACutWouldSend) {
  const std::vector<PipelineLayer> layers = LayersOf(*ParseProfile(Branches(), "f"));
  EXPECT_THAT(layers, ElementsAre(PipelineLayer{0.004, 20, 200}, PipelineLayer{0.004, 30, 500},
                                  PipelineLayer{0.004, 40, 700}, PipelineLayer{0.004, 100, 0}));
}

TEST(PipeDreamProfileTest, OneOfAModelHasItsCosts) {
  const models::Graph model = *models::BuildModel("rnnlm:tiny", models::ModelInput{});
  const Machine machine = FakeMachine({});
  const FakeCosts costs(10);
  for (const int64_t chunk : {0, 2}) {
    const OpGraph graph = *MakeOpGraph(model, {.batch = 6, .time_chunk = chunk});
    const Profile profile = *ParseProfile(TextOf(ProfileOf(graph, costs, 0)), "f");
    ASSERT_EQ(profile.nodes.size(), model.ops().size());
    EXPECT_THAT(profile.nodes[0].what, HasSubstr(model.ops()[0].name));
    double parameter_bytes = 0;
    for (const ProfileNode& node : profile.nodes) parameter_bytes += node.parameter_bytes;
    EXPECT_EQ(parameter_bytes, 4 * static_cast<double>(model.parameter_count()));
    const std::vector<PipelineLayer> expected = LayersOf(graph, machine, costs);
    const std::vector<PipelineLayer> layers = LayersOf(profile);
    ASSERT_EQ(layers.size(), expected.size());
    for (size_t i = 0; i < layers.size(); ++i) {
      EXPECT_NEAR(layers[i].compute_s, expected[i].compute_s, 1e-9);
      EXPECT_EQ(layers[i].weight_bytes, expected[i].weight_bytes);
    }
  }
}

TEST(PipeDreamProfileTest, WhatItIsNotIsRefusedInOneLineThatNamesTheLine) {
  const std::string good = NodeLine(1, "Add");
  EXPECT_EQ(ErrorOf("\n"), "f: it has no nodes");
  EXPECT_THAT(ErrorOf(good + "node2 forward\n"), HasSubstr("f:2: a node is 'node1 -- what"));
  EXPECT_THAT(ErrorOf(good + "\n\tnode1 - node1\n"), HasSubstr("f:3: an edge is"));
  EXPECT_THAT(ErrorOf(good + "\tnode1 -- node7\n"), HasSubstr("f:2: there is no node 'node7'"));
  EXPECT_THAT(ErrorOf(good + good), HasSubstr("f:2: node1 is there twice"));
  EXPECT_THAT(ErrorOf("node1 -- Add -- forward_compute_time=-1\n"),
              HasSubstr("f:1: forward_compute_time: '-1' is no number"));
  EXPECT_THAT(ErrorOf("node1 -- Add -- forward_compute_time=nan\n"), HasSubstr("'nan' is no"));
  EXPECT_THAT(ErrorOf("node1 -- Add -- activation_size=[1.0; 2.0\n"), HasSubstr("is no number"));
  EXPECT_THAT(ErrorOf("node1 -- Add -- parameter_size=1;2\n"), HasSubstr("is no number"));
  EXPECT_THAT(ErrorOf("node1 -- Add -- parameter_size=1\n"),
              HasSubstr("node1 has no forward_compute_time"));
  EXPECT_THAT(ErrorOf("node1 -- Add -- parameter_size=1, parameter_size=1\n"),
              HasSubstr("parameter_size is there twice"));
  EXPECT_THAT(ErrorOf("node1 -- Add -- time=1\n"), HasSubstr("f:1: there is no field 'time'"));
}

TEST(PipeDreamProfileTest, ACircleIsRefusedAtOneOfItsEdges) {
  const std::string nodes =
      absl::StrCat(NodeLine(1, "Add"), NodeLine(2, "Add"), NodeLine(3, "Add"), NodeLine(4, "Add"));
  // 3 only lies behind the circle.
  EXPECT_THAT(ErrorOf(nodes + "\tnode2 -- node3\n\tnode1 -- node4\n\tnode4 -- node1\n"
                              "\tnode1 -- node2\n"),
              testing::AnyOf(HasSubstr("f:6: the edges run in a circle: node1 -- node4"),
                             HasSubstr("f:7: the edges run in a circle: node4 -- node1")));
  EXPECT_THAT(ErrorOf(nodes + "\tnode2 -- node2\n"), HasSubstr("f:5: the edges run in a circle"));
}

}  // namespace
}  // namespace soapstone::planner
