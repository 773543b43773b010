#include "sim/fault_world.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace soapstone::sim {
namespace {

// 100, or as many as SOAPSTONE_SEEDS says: the long campaign.
uint64_t Seeds() {
  const char* wanted = std::getenv("SOAPSTONE_SEEDS");
  return wanted == nullptr ? 100 : std::strtoull(wanted, nullptr, 10);
}

SeedOptions Options(const std::string& policy, FaultBudget faults, uint32_t transfer_stages = 1) {
  SeedOptions options;
  options.world.shape = {.workers = 3,
                         .shards = 2,
                         .policy = *consistency::ParsePolicy(policy),
                         .clocks = 6,
                         .micro_batch_count = 4,
                         .transfer_stages = transfer_stages};
  options.world.faults = faults;
  return options;
}

class FaultWorldTest : public testing::TestWithParam<std::string> {
 protected:
  void RunSeeds(FaultBudget faults) {
    const uint64_t seeds = Seeds();
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      SeedOptions options = Options(GetParam(), faults, transfer_stages_);
      options.world.shape.small_stretches = small_stretches_;
      options.world.watched = watched_;
      const auto report = RunSeed(options, seed);
      ASSERT_TRUE(report.ok()) << report.status();
      ASSERT_FALSE(report->violation.has_value()) << report->ToString();
    }
  }

  uint32_t transfer_stages_ = 1;
  bool watched_ = false;
  bool small_stretches_ = false;
};

TEST_P(FaultWorldTest, AnyOrderOfMessages) { RunSeeds({.duplicates = 3}); }
TEST_P(FaultWorldTest, WorkersLeave) { RunSeeds({.leaves = 1}); }
TEST_P(FaultWorldTest, WorkersCrash) { RunSeeds({.crashes = 1}); }
TEST_P(FaultWorldTest, LostWorkersAreReplaced) {
  RunSeeds({.crashes = 1, .joins = 1, .late_words = 3});
}
TEST_P(FaultWorldTest, ConnectionsBreak) { RunSeeds({.duplicates = 1, .breaks = 6}); }
TEST_P(FaultWorldTest, LinksAreLost) {
  RunSeeds({.crashes = 1, .joins = 1, .breaks = 1, .losses = 1});
}
// An answer that a server has lost is asked for again.
TEST_P(FaultWorldTest, AnswersAreForgotten) {
  watched_ = true;
  RunSeeds({.forgets = 3});
}
// A read that is repeated although its answer is on its way is a read.
TEST_P(FaultWorldTest, ReadsAreRepeated) { RunSeeds({.duplicates = 1, .asks = 5}); }
TEST_P(FaultWorldTest, Everything) {
  RunSeeds({.crashes = 2, .leaves = 1, .joins = 2, .duplicates = 3, .breaks = 3, .late_words = 2});
}

INSTANTIATE_TEST_SUITE_P(Policies, FaultWorldTest,
                         testing::ValuesIn(consistency::ExamplePolicies()));
// Workers that keep the parameters among themselves.
INSTANTIATE_TEST_SUITE_P(Peers, FaultWorldTest,
                         testing::ValuesIn(consistency::ExamplePeerPolicies()));
// Rounds of several local steps.
INSTANTIATE_TEST_SUITE_P(LongRounds, FaultWorldTest,
                         testing::Values("easgd:tau=2,mode=sync", "easgd:tau=2,mode=async",
                                         "localsgd:h=2"));

// The model in two stretches, each in a push of its own.
class StretchesWorldTest : public FaultWorldTest {
 protected:
  StretchesWorldTest() { small_stretches_ = true; }
};

TEST_P(StretchesWorldTest, AnyOrderOfMessages) { RunSeeds({.duplicates = 3}); }
TEST_P(StretchesWorldTest, LostWorkersAreReplaced) {
  RunSeeds({.crashes = 1, .joins = 1, .late_words = 3});
}
TEST_P(StretchesWorldTest, LinksAreLost) {
  RunSeeds({.crashes = 1, .joins = 1, .breaks = 1, .losses = 1});
}
TEST_P(StretchesWorldTest, Everything) {
  RunSeeds({.crashes = 2, .leaves = 1, .joins = 2, .duplicates = 3, .breaks = 3, .late_words = 2});
}

INSTANTIATE_TEST_SUITE_P(Peers, StretchesWorldTest,
                         testing::Values("allreduce", "eager:mode=solo,seed=1"));

// Shards by layers: workers ask for the next values shard by shard, and load them one by one.
class StagedWorldTest : public FaultWorldTest {
 protected:
  StagedWorldTest() { transfer_stages_ = 2; }
};

TEST_P(StagedWorldTest, AnyOrderOfMessages) { RunSeeds({.duplicates = 3}); }
TEST_P(StagedWorldTest, WorkersLeave) { RunSeeds({.leaves = 1}); }
TEST_P(StagedWorldTest, WorkersCrash) { RunSeeds({.crashes = 1}); }
TEST_P(StagedWorldTest, LostWorkersAreReplaced) { RunSeeds({.crashes = 1, .joins = 1}); }
TEST_P(StagedWorldTest, Everything) {
  RunSeeds({.crashes = 2, .leaves = 1, .joins = 2, .duplicates = 3});
}

std::vector<std::string> PoliciesThatPullAhead() {
  std::vector<std::string> policies = consistency::ExamplePolicies();
  std::erase_if(policies, [](const std::string& policy) {
    return !consistency::ParsePolicy(policy)->pulls_ahead();
  });
  return policies;
}

INSTANTIATE_TEST_SUITE_P(Policies, StagedWorldTest, testing::ValuesIn(PoliciesThatPullAhead()));

// What asks for answers that servers lose is the workers' watch: without it the same runs hang.
TEST(RunSeedTest, WithoutAWatchAForgottenAnswerIsAHang) {
  for (const std::string& policy : consistency::ExamplePolicies()) {
    SeedOptions options = Options(policy, {.forgets = 3});
    uint64_t hangs = 0;
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      const auto report = RunSeed(options, seed);
      if (!report->violation.has_value()) continue;
      EXPECT_EQ(report->violation, "S5: deadlock: nothing can happen, and the job is not over")
          << report->ToString();
      ++hangs;
    }
    EXPECT_GT(hangs, 0u) << policy;
  }
}

TEST(RunSeedTest, ASeedIsARun) {
  const SeedOptions options = Options("ssp:s=1", {.crashes = 1, .joins = 1, .duplicates = 2});
  const auto first = RunSeed(options, 5), again = RunSeed(options, 5), other = RunSeed(options, 6);
  EXPECT_EQ(first->trace, again->trace);
  EXPECT_NE(first->trace, other->trace);
}

TEST(RunSeedTest, ARunThatIsTooLongIsReported) {
  SeedOptions options = Options("bsp", {});
  options.steps_max = 30;
  EXPECT_EQ(RunSeed(options, 1)->violation, "S5: not over after 30 steps");
}

}  // namespace
}  // namespace soapstone::sim
