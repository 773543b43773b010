#include "scheduler/planner/simulator/transposition_table.h"

#include "gtest/gtest.h"

namespace soapstone::planner {
namespace {

TEST(TranspositionTableTest, AnswersOnlyForTheStrategyItself) {
  TranspositionTable table;
  const StrategyHash hash = {{123, 456}};
  EXPECT_EQ(table.AtLeast(hash), 0);
  EXPECT_EQ(table.AtLeast({}), 0);
  table.Remember(hash, 50);
  EXPECT_EQ(table.AtLeast(hash), 50);
  // In one place with it, but of another strategy.
  EXPECT_EQ(table.AtLeast({{123, 457}}), 0);
  EXPECT_EQ(table.AtLeast({{123 + (uint64_t{1} << 40), 456}}), 0);
}

TEST(TranspositionTableTest, WhatComesLaterTakesThePlace) {
  TranspositionTable table;
  const StrategyHash first = {{7, 1}}, second = {{7, 2}};
  table.Remember(first, 10);
  table.Remember(first, 8);
  EXPECT_EQ(table.AtLeast(first), 8);
  table.Remember(second, 20);
  EXPECT_EQ(table.AtLeast(first), 0);
  EXPECT_EQ(table.AtLeast(second), 20);
  table.Clear();
  EXPECT_EQ(table.AtLeast(second), 0);
}

}  // namespace
}  // namespace soapstone::planner
