#include "sim/running_clocks.h"

#include "gtest/gtest.h"

namespace soapstone::sim {
namespace {

TEST(RunningClocksTest, WorkersAreCountedOneByOne) {
  RunningClocks clocks({.teams = 3, .seats = 1});
  clocks.Start(WorkerId{0}, 0);
  clocks.Start(WorkerId{1}, 0);
  clocks.Complete(WorkerId{1}, 3);
  EXPECT_EQ(clocks.Gap(), 3);
  clocks.Complete(WorkerId{1}, 2);  // of another shard
  EXPECT_EQ(clocks.Max(), 3);
  clocks.Gone(WorkerId{1});
  EXPECT_EQ(clocks.Gap(), 0);
  EXPECT_FALSE(clocks.Has(WorkerId{1}));
}

TEST(RunningClocksTest, ATeamIsAsFarAsItsSlowestSeat) {
  RunningClocks clocks({.teams = 2, .seats = 2});
  for (uint32_t w = 0; w < 4; ++w) clocks.Start(WorkerId{w}, 0);
  clocks.Complete(WorkerId{3}, 4);  // a seat of team 1 that is ahead
  EXPECT_EQ(clocks.Gap(), 0);
  clocks.Complete(WorkerId{2}, 2);
  EXPECT_EQ(clocks.Gap(), 2);
  clocks.Complete(WorkerId{0}, 1);
  clocks.Complete(WorkerId{1}, 1);
  EXPECT_EQ(clocks.Gap(), 1);
}

}  // namespace
}  // namespace soapstone::sim
