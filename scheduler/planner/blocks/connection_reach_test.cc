#include "scheduler/planner/blocks/connection_reach.h"

#include "gtest/gtest.h"
#include "scheduler/planner/planner_fixture.h"

namespace soapstone::planner {
namespace {

using compute::Conv2d;
using compute::Window;

ConnectionReach ReachBetween(Window second) {
  FakeGraph g(2);
  const FakeTensor x =
      g.Add(Conv2d{.channels = 2, .window = Window::Square(1)}, {g.Input({2, 2, 8, 8})});
  g.Add(Conv2d{.channels = 2, .window = second}, {x});
  const uint32_t edges[] = {0};
  return FindReach(g.graph(), edges);
}

TEST(ConnectionReachTest, AWindowThatSlidesReadsAll) {
  const ConnectionReach reach = ReachBetween(Window::Square(3, 1, 1));
  EXPECT_TRUE(reach.feeds_all);
  EXPECT_TRUE(reach.reads_all);
}

// Every other row is skipped: a part that makes just that one is read by nobody.
TEST(ConnectionReachTest, AWindowThatSkipsLeavesPartsUnread) {
  const ConnectionReach reach = ReachBetween(Window::Square(1, 2));
  EXPECT_TRUE(reach.feeds_all);
  EXPECT_FALSE(reach.reads_all);
}

// All of the outermost window lies in the padding.
TEST(ConnectionReachTest, AWindowInThePaddingIsNotFed) {
  const ConnectionReach reach = ReachBetween(Window::Square(1, 1, 1));
  EXPECT_FALSE(reach.feeds_all);
  EXPECT_TRUE(reach.reads_all);
}

}  // namespace
}  // namespace soapstone::planner
