#include "consistency/clock_table.h"

#include "gtest/gtest.h"

namespace soapstone::consistency {
namespace {

TEST(ClockTableTest, MinFollowsTheSlowestMember) {
  ClockTable table;
  table.Set(WorkerId{0}, 0);
  table.Set(WorkerId{2}, 0);
  table.Set(WorkerId{0}, 5);
  EXPECT_EQ(table.Min(), 0);
  EXPECT_EQ(table.Max(), 5);
  table.Set(WorkerId{2}, 3);
  EXPECT_EQ(table.Min(), 3);
}

TEST(ClockTableTest, RemovedMemberCountsNoMore) {
  ClockTable table;
  table.Set(WorkerId{0}, 7);
  table.Set(WorkerId{1}, 2);
  table.Remove(WorkerId{1});
  EXPECT_EQ(table.Min(), 7);
  EXPECT_EQ(table.members(), 1u);
  EXPECT_FALSE(table.Contains(WorkerId{1}));
}

TEST(ClockTableTest, EmptyTableHoldsNobodyBack) {
  ClockTable table;
  EXPECT_EQ(table.Min(), kClockMax);
  table.Remove(WorkerId{9});
  EXPECT_EQ(table.members(), 0u);
}

}  // namespace
}  // namespace soapstone::consistency
