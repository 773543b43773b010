#include "scheduler/planner/search/random_source.h"

#include <vector>

#include "gtest/gtest.h"

namespace soapstone::planner {
namespace {

// Beyond one batch of words, so that the batches follow each other without a gap or a repeat.
TEST(RandomSourceTest, IsTheCountedStream) {
  RandomSource random(7, 3);
  const CounterRandom counted(7, RandomUse::kPlan, 3);
  std::vector<uint32_t> words(4 * 200);
  counted.Blocks(0, 200, words.data());
  for (uint32_t word : words) {
    ASSERT_EQ(random.Uniform(), (static_cast<double>(word) + 1) / 4294967296.0);
  }
}

TEST(RandomSourceTest, StreamsDifferAndStayBelowTheBound) {
  RandomSource a(7, 3), b(7, 4);
  int differ = 0;
  for (int i = 0; i < 100; ++i) {
    const uint32_t x = a.Below(10), y = b.Below(10);
    ASSERT_TRUE(x < 10 && y < 10);
    differ += x != y ? 1 : 0;
  }
  EXPECT_GT(differ, 50);
}

}  // namespace
}  // namespace soapstone::planner
