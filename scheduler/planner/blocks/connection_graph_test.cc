#include "scheduler/planner/blocks/connection_graph.h"

#include <set>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/planner/simulator_fixture.h"

namespace soapstone::planner {
namespace {

using testing::ElementsAre;

TEST(ConnectionGraphTest, EdgesBetweenTwoOperatorsAreOneConnection) {
  FakeGraph g(4);
  const FakeTensor x = g.Add(compute::Linear{.outputs = 2}, {g.Input({4, 4})});
  const FakeTensor y = g.Add(compute::Linear{.outputs = 2}, {x});
  const FakeTensor twice = g.Add(compute::Add{}, {y, y});
  g.Add(compute::Add{}, {twice, x});
  const OpGraph graph = g.graph();
  const ConnectionGraph connections(&graph);
  ASSERT_EQ(connections.edges(), 4u);
  EXPECT_THAT(connections.edge(0).edges, ElementsAre(0));     // x → y
  EXPECT_THAT(connections.edge(1).edges, ElementsAre(1, 2));  // y → twice
  EXPECT_EQ(connections.out().of(0).size(), 2u);
  EXPECT_EQ(connections.out().of(0)[1].other, 3u);
  EXPECT_EQ(connections.in().of(3)[0].other, 2u);
  EXPECT_EQ(connections.group_of(0), graph.ops[0].group);
  EXPECT_EQ(connections.group_of(2), ConnectionGraph::kNoGroup);
}

TEST(ConnectionGraphTest, EachEdgeIsInOneConnectionAndEachConnectionAtBothEnds) {
  for (const char* model : {"gnmt:tiny", "inception_v3", "lenet5"}) {
    const OpGraph graph = ZooGraph(model, 2);
    const ConnectionGraph connections(&graph);
    std::set<uint32_t> edges;
    std::set<std::tuple<uint32_t, uint32_t, bool>> ends;
    for (uint32_t id = 0; id < connections.edges(); ++id) {
      const Connection& c = connections.edge(id);
      EXPECT_TRUE(ends.emplace(c.from, c.to, c.gradient).second) << model;
      for (uint32_t edge : c.edges) {
        EXPECT_TRUE(edges.insert(edge).second) << model;
        EXPECT_EQ(std::tuple(graph.edges[edge].from, graph.edges[edge].to),
                  std::tuple(c.from, c.to));
      }
    }
    EXPECT_EQ(edges.size(), graph.edges.size());
    size_t in = 0, out = 0;
    for (uint32_t op = 0; op < connections.ops(); ++op) {
      in += connections.in().of(op).size();
      out += connections.out().of(op).size();
      for (const auto [edge, from] : connections.in().of(op)) {
        EXPECT_EQ(std::tuple(connections.edge(edge).from, connections.edge(edge).to),
                  std::tuple(from, op));
      }
      for (const auto [edge, to] : connections.out().of(op)) {
        EXPECT_EQ(std::tuple(connections.edge(edge).from, connections.edge(edge).to),
                  std::tuple(op, to));
      }
    }
    EXPECT_EQ(in, connections.edges());
    EXPECT_EQ(out, connections.edges());
  }
}

// Classes are found once for all of their members, so that what follows from one must hold of all.
TEST(ConnectionGraphTest, MembersOfAClassHaveEquivalentEdgesAndOneReach) {
  const OpGraph graph = ZooGraph("transformer_lm:tiny,layers=3", 2);
  const ConnectionGraph connections(&graph);
  EXPECT_LT(connections.edge_classes(), connections.edges());
  std::vector<const Connection*> first(connections.edge_classes(), nullptr);
  for (uint32_t id = 0; id < connections.edges(); ++id) {
    const Connection& c = connections.edge(id);
    const Connection*& other = first[c.equivalence_class];
    if (other == nullptr) other = &c;
    ASSERT_EQ(c.edges.size(), other->edges.size());
    for (size_t i = 0; i < c.edges.size(); ++i) {
      EXPECT_EQ(connections.classes().of_edge[c.edges[i]],
                connections.classes().of_edge[other->edges[i]]);
    }
    const ConnectionReach reach = FindReach(graph, c.edges);
    EXPECT_EQ(c.reach.feeds_all, reach.feeds_all);
    EXPECT_EQ(c.reach.reads_all, reach.reads_all);
  }
}

TEST(ConnectionGraphTest, MicroBatchesAreStretchesOfOperators) {
  const OpGraph graph = ZooGraph("lenet5", 4);
  const ConnectionGraph connections(&graph);
  ASSERT_EQ(connections.micro_batches(), 4u);
  EXPECT_EQ(connections.first_op(0), 0u);
  EXPECT_EQ(connections.first_op(4), connections.ops());
  for (uint32_t j = 0; j < 4; ++j) {
    for (uint32_t op = connections.first_op(j); op < connections.first_op(j + 1); ++op) {
      EXPECT_EQ(connections.micro_batch_of(op), j);
    }
  }
}

}  // namespace
}  // namespace soapstone::planner
