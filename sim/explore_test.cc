#include "sim/explore.h"

#include "gtest/gtest.h"
#include "sim/world.h"

namespace soapstone::sim {
namespace {

World Small(const std::string& policy, Clock clocks, FaultBudget faults = {}) {
  return *World::Make({.shape = {.workers = 2,
                                 .shards = 1,
                                 .policy = *consistency::ParsePolicy(policy),
                                 .clocks = clocks},
                       .faults = faults,
                       .start_registered = true,
                       .instant_device = true});
}

TEST(ExploreTest, EveryInterleavingOfASmallJobHolds) {
  for (const char* policy : {"bsp", "ssp:s=1", "async"}) {
    const ExploreReport report = Explore(Small(policy, 2), {});
    EXPECT_TRUE(report.complete) << policy << ": " << report.ToString();
    EXPECT_FALSE(report.violation.has_value()) << policy << ": " << report.ToString();
    EXPECT_GT(report.ends, 0u);
  }
}

TEST(ExploreTest, WithACrashTheOtherWorkerFinishes) {
  const ExploreReport report = Explore(Small("bsp", 2, {.crashes = 1}), {});
  EXPECT_TRUE(report.complete) << report.ToString();
  EXPECT_FALSE(report.violation.has_value()) << report.ToString();
}

TEST(ExploreTest, TheBudgetOfStatesIsKept) {
  const ExploreReport report = Explore(Small("async", 4), {.states_max = 100});
  EXPECT_FALSE(report.complete);
  EXPECT_LE(report.states, 101u);
}

TEST(ExploreTest, ACopyOfAWorldGoesOnByItself) {
  const World start = Small("ssp:s=1", 2);
  World copy = start;
  copy.Do(copy.Enabled().front());
  Fingerprint a, b, c;
  start.AddTo(&a);
  copy.AddTo(&b);
  World again = start;
  again.Do(again.Enabled().front());
  again.AddTo(&c);
  EXPECT_NE(a.value(), b.value());
  EXPECT_EQ(b.value(), c.value());
}

}  // namespace
}  // namespace soapstone::sim
