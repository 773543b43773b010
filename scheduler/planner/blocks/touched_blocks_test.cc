#include "scheduler/planner/blocks/touched_blocks.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/planner/simulator_fixture.h"

namespace soapstone::planner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// 0 → 1 → 2 → 3: linears 0, 1 and 3, a join 2 of 1 with itself.
OpGraph Chain() {
  FakeGraph g(4);
  const FakeTensor x = g.Add(compute::Linear{.outputs = 4}, {g.Input({4, 4})});
  const FakeTensor y = g.Add(compute::Linear{.outputs = 4}, {x});
  const FakeTensor sum = g.Add(compute::Add{}, {y, y});
  g.Add(compute::Linear{.outputs = 4}, {sum});
  return g.graph();
}

TEST(TouchedBlocksTest, AreTheOperatorItsNeighboursItsConnectionsAndItsGroup) {
  const OpGraph graph = Chain();
  const ConnectionGraph connections(&graph);
  TouchedBlocks touched(&connections);
  const Change first = {.op = 0, .config = {}};
  touched.Collect({&first, 1}, {});
  EXPECT_THAT(touched.ops(), UnorderedElementsAre(0, 1));
  EXPECT_THAT(touched.edges(), UnorderedElementsAre(0));
  EXPECT_THAT(touched.groups(), UnorderedElementsAre(graph.ops[0].group));
  // No group: it has no parameters.
  const Change join = {.op = 2, .config = {}};
  touched.Collect({&join, 1}, {});
  EXPECT_THAT(touched.ops(), UnorderedElementsAre(1, 2, 3));
  EXPECT_THAT(touched.edges(), UnorderedElementsAre(1, 2));
  EXPECT_THAT(touched.groups(), IsEmpty());
}

TEST(TouchedBlocksTest, EachIsThereOnceHoweverManyChangesTouchIt) {
  const OpGraph graph = Chain();
  const ConnectionGraph connections(&graph);
  TouchedBlocks touched(&connections);
  const Change changes[] = {{.op = 0, .config = {}}, {.op = 1, .config = {}}};
  const ServerChange servers[] = {{.group = graph.ops[1].group, .servers = {}},
                                  {.group = graph.ops[3].group, .servers = {}}};
  for (int turn = 0; turn < 2; ++turn) {
    touched.Collect(changes, servers);
    EXPECT_THAT(touched.ops(), UnorderedElementsAre(0, 1, 2));
    EXPECT_THAT(touched.edges(), UnorderedElementsAre(0, 1));
    EXPECT_THAT(touched.groups(),
                ElementsAre(graph.ops[0].group, graph.ops[1].group, graph.ops[3].group));
  }
  touched.Collect({}, {});
  EXPECT_THAT(touched.ops(), IsEmpty());
  EXPECT_THAT(touched.edges(), IsEmpty());
  EXPECT_THAT(touched.groups(), IsEmpty());
}

}  // namespace
}  // namespace soapstone::planner
