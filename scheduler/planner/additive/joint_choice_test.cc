#include "scheduler/planner/additive/joint_choice.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "scheduler/planner/search/space.h"

namespace soapstone::planner {
namespace {

// Costs drawn from 0 to 19, so that ties occur.
struct Drawn {
  Drawn(uint64_t seed, uint32_t variables, uint32_t pair_percent) : random(seed, 0) {
    for (uint32_t i = 0; i < variables; ++i) choices.push_back(1 + random.Below(4));
    problem = JointChoice(choices);
    for (uint32_t i = 0; i < variables; ++i) {
      for (uint32_t x = 0; x < choices[i]; ++x) problem.Add(i, x, random.Below(20));
      for (uint32_t j = 0; j < i; ++j) {
        if (random.Below(100) >= pair_percent) continue;
        std::vector<std::vector<double>> costs(choices[i], std::vector<double>(choices[j]));
        for (auto& row : costs) {
          for (double& cost : row) cost = random.Below(20);
        }
        problem.AddPair(i, j, costs);
      }
    }
  }
  double LeastOfAll() const {
    double least = 1e300;
    std::vector<uint32_t> at(choices.size(), 0);
    for (bool more = true; more;) {
      least = std::min(least, problem.CostOf(at));
      more = false;
      for (size_t i = 0; i < at.size() && !more; ++i) {
        more = ++at[i] < choices[i];
        if (!more) at[i] = 0;
      }
    }
    return least;
  }
  RandomSource random;
  std::vector<uint32_t> choices;
  JointChoice problem{{}};
};

TEST(JointChoiceTest, IsTheLeastOfAll) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Drawn drawn(seed, 7, seed % 3 == 0 ? 20 : seed % 3 == 1 ? 50 : 100);
    const JointChoice::Result result = drawn.problem.Solve();
    EXPECT_TRUE(result.exact);
    EXPECT_EQ(result.cost, drawn.LeastOfAll()) << seed;
    EXPECT_EQ(drawn.problem.CostOf(result.choices), result.cost);
  }
}

TEST(JointChoiceTest, SaysWhereATableWouldBeTooLarge) {
  uint32_t met = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Drawn drawn(seed, 8, 100);
    const JointChoice::Result result = drawn.problem.Solve(64);
    if (result.exact) continue;
    ++met;
    EXPECT_GE(result.cost, drawn.LeastOfAll());
    EXPECT_EQ(drawn.problem.CostOf(result.choices), result.cost);
  }
  EXPECT_GT(met, 10u);
}

// A chain of 400 variables is no harder than its length.
TEST(JointChoiceTest, LongChains) {
  JointChoice problem(std::vector<uint32_t>(400, 3));
  for (uint32_t i = 0; i + 1 < 400; ++i) {
    // To stay costs 1, to move on by one nothing, to move back 5.
    problem.AddPair(i, i + 1, {{1, 0, 5}, {5, 1, 0}, {0, 5, 1}});
  }
  problem.Add(399, 0, 1);
  problem.Add(399, 1, 1);
  const JointChoice::Result result = problem.Solve();
  EXPECT_TRUE(result.exact);
  EXPECT_EQ(result.cost, 0);
  EXPECT_EQ(result.choices[399], 2u);
  EXPECT_EQ(result.choices[398], 1u);
}

}  // namespace
}  // namespace soapstone::planner
