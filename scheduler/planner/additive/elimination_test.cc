#include "scheduler/planner/additive/elimination.h"

#include <algorithm>
#include <utility>

#include "gtest/gtest.h"
#include "scheduler/planner/search/space.h"

namespace soapstone::planner {
namespace {

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

PairwiseProblem RandomProblem(uint32_t nodes, const Pairs& edges, uint64_t seed) {
  RandomSource random(seed, 0);
  PairwiseProblem problem;
  for (uint32_t i = 0; i < nodes; ++i) {
    std::vector<Nanos>& costs = problem.nodes.emplace_back(2 + random.Below(3));
    for (Nanos& cost : costs) cost = random.Below(50);
  }
  for (const auto& [a, b] : edges) {
    PairwiseProblem::Edge edge = {.a = a, .b = b};
    edge.costs.resize(problem.nodes[a].size() * problem.nodes[b].size());
    for (Nanos& cost : edge.costs) cost = random.Below(100);
    problem.edges.push_back(std::move(edge));
  }
  return problem;
}

// Every choice.
Nanos BruteForce(const PairwiseProblem& problem) {
  std::vector<uint32_t> choice(problem.nodes.size(), 0);
  Nanos best = CostOf(problem, choice);
  while (true) {
    size_t i = 0;
    while (i < choice.size() && ++choice[i] == problem.nodes[i].size()) choice[i++] = 0;
    if (i == choice.size()) return best;
    best = std::min(best, CostOf(problem, choice));
  }
}

void ExpectExact(uint32_t nodes, const Pairs& edges, uint32_t residual) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const PairwiseProblem problem = RandomProblem(nodes, edges, seed);
    const PairwiseMinimum found = Minimize(problem);
    EXPECT_TRUE(found.exact);
    EXPECT_EQ(found.residual, residual);
    EXPECT_EQ(found.cost, BruteForce(problem)) << seed;
    EXPECT_EQ(found.cost, CostOf(problem, found.choice));
  }
}

TEST(EliminationTest, ChainsAreExact) {
  ExpectExact(1, {}, 0);
  ExpectExact(2, {{0, 1}}, 0);
  ExpectExact(8, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}}, 0);
}

TEST(EliminationTest, ForksJoinsAndParallelEdgesAreExact) {
  // A branch, edges the other way around, two edges of one pair.
  ExpectExact(7, {{0, 1}, {0, 2}, {1, 3}, {3, 2}, {3, 4}, {3, 4}, {5, 4}, {5, 6}}, 0);
  ExpectExact(6, {{0, 1}, {0, 2}, {0, 3}, {1, 4}, {2, 4}, {3, 4}, {4, 5}}, 0);
  ExpectExact(6, {{0, 1}, {2, 3}, {2, 4}}, 0);  // pieces
}

TEST(EliminationTest, WhatCannotBeEliminatedIsEnumerated) {
  // All pairs of four, with a tail, and a ladder with both diagonals.
  ExpectExact(6, {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}, {3, 4}, {4, 5}}, 4);
}

TEST(EliminationTest, AnEnumerationThatIsCutShortSaysSo) {
  Pairs all;
  for (uint32_t a = 0; a < 8; ++a) {
    for (uint32_t b = a + 1; b < 8; ++b) all.emplace_back(a, b);
  }
  const PairwiseProblem problem = RandomProblem(8, all, 1);
  const PairwiseMinimum cut = Minimize(problem, {.steps_max = 10, .beam = 1});
  EXPECT_FALSE(cut.exact);
  EXPECT_EQ(cut.residual, 8u);
  EXPECT_EQ(cut.cost, CostOf(problem, cut.choice));
  EXPECT_GE(cut.cost, BruteForce(problem));
  EXPECT_EQ(Minimize(problem).cost, BruteForce(problem));
}

TEST(EliminationTest, StopsWhereverItIsAsked) {
  Pairs edges;
  for (uint32_t a = 0; a < 5; ++a) {
    for (uint32_t b = a + 1; b < 5; ++b) edges.emplace_back(a, b);
  }
  for (uint32_t i = 5; i < 9; ++i) edges.emplace_back(i - 1, i);
  const PairwiseProblem problem = RandomProblem(9, edges, 1);
  int asked = 0;
  const auto count = [&] { return ++asked < 0; };
  EXPECT_TRUE(Minimize(problem, {.stop = count}).complete);
  EXPECT_EQ(asked, 4 + 5);  // the tail's nodes, and the beam's of the rest
  for (int at = 1; at <= asked; ++at) {
    int left = at;
    const PairwiseMinimum stopped = Minimize(problem, {.stop = [&] { return --left == 0; }});
    EXPECT_FALSE(stopped.complete || stopped.exact) << at;
    EXPECT_EQ(stopped.choice, std::vector<uint32_t>(9, 0)) << at;
  }
}

}  // namespace
}  // namespace soapstone::planner
