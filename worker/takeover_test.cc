#include "worker/takeover.h"

#include <algorithm>

#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/membership/membership.h"
#include "worker/hand_played_engine.h"

namespace soapstone::worker {
namespace {

using ::testing::ElementsAre;
using Step = Takeover::Step;

constexpr uint32_t kMicroBatches = 8;

// Worker 0 of four, each with two of the micro-batches.
class TakeoverTest : public ::testing::Test {
 protected:
  TakeoverTest() : options_(Shared(SmallJob("bsp", kMicroBatches, 20))), roster_(RosterOf(4)) {}

  Program StepOf(MicroBatchRange own) const {
    return BuildStep(options_->Inputs(), PlanTreeNodes(own, {}, kMicroBatches, Merge::kAll));
  }
  void Lose(uint32_t worker) {
    std::erase_if(roster_.workers.Mutable(),
                  [&](const wire::Member& m) { return m.worker == WorkerId{worker}; });
  }
  // What a takeover under the roster computes, ascending.
  std::vector<uint32_t> Begin(Step step, Clock clock, bool reload = false) {
    std::vector<uint32_t> micro_batches;
    const ProgramRun* run = takeover_.Begin(roster_, step, clock, next_run_, reload);
    if (run == nullptr) return micro_batches;
    EXPECT_EQ(run->id(), next_run_++);
    EXPECT_EQ(run->clock(), clock);
    for (const NodePlan& plan : run->program().nodes) {
      for (uint32_t micro_batch = plan.node.begin; micro_batch < plan.node.end; ++micro_batch)
        micro_batches.push_back(micro_batch);
    }
    return micro_batches;
  }

  std::shared_ptr<const EngineOptions> options_;
  wire::Roster roster_;
  uint64_t next_run_ = 1;
  Takeover takeover_{options_};
};

TEST_F(TakeoverTest, WhatALostWorkerOwedIsTakenOverOnce) {
  takeover_.OnStep(StepOf({0, 2}));
  EXPECT_TRUE(Begin(Step::kThis, 3).empty());
  Lose(1);
  Lose(2);
  EXPECT_THAT(Begin(Step::kThis, 3), ElementsAre(2, 3));  // the first half of [2,6)
  EXPECT_TRUE(Begin(Step::kThis, 3).empty());
  Lose(3);
  EXPECT_THAT(Begin(Step::kThis, 3), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(takeover_.runs().size(), 2u);
}

// Every worker lives through the same rosters, each at its own time. None plans a micro-batch
// twice, and of those that are left there is one for each.
TEST_F(TakeoverTest, EveryMicroBatchIsPlannedAndByNobodyTwice) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    uint64_t draw = 0;
    const auto below = [&](uint64_t n) {
      return CounterRandom(seed, RandomUse::kTest, 0).Below(draw++, n);
    };
    std::vector<uint32_t> alive = {0, 1, 2, 3};
    std::vector<Takeover> takeovers;
    std::vector<std::vector<uint32_t>> planned(4, std::vector<uint32_t>(kMicroBatches));
    roster_ = RosterOf(4);
    for (uint32_t w = 0; w < 4; ++w) {
      EngineOptions options = *options_;
      options.id = WorkerId{w};
      const MicroBatchRange own = {2 * w, 2 * w + 2};
      takeovers.emplace_back(Shared(options)).OnStep(StepOf(own));
      for (uint32_t micro_batch = own.begin; micro_batch < own.end; ++micro_batch)
        ++planned[w][micro_batch];
    }
    while (alive.size() > 1) {
      const size_t at = below(alive.size());
      Lose(alive[at]);
      alive.erase(alive.begin() + static_cast<ptrdiff_t>(at));
      if (alive.size() > 1 && below(3) == 0) continue;  // nobody heard of that roster
      for (const uint32_t w : alive) {
        const ProgramRun* run = takeovers[w].Begin(roster_, Step::kThis, 5, 1, false);
        if (run == nullptr) continue;
        for (const NodePlan& plan : run->program().nodes) {
          for (uint32_t i = plan.node.begin; i < plan.node.end; ++i) ++planned[w][i];
        }
      }
      for (uint32_t micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
        uint32_t by = 0;
        for (const uint32_t w : alive) {
          EXPECT_LE(planned[w][micro_batch], 1u);
          by += planned[w][micro_batch];
        }
        EXPECT_GE(by, 1u) << "seed " << seed << " micro-batch " << micro_batch;
      }
    }
  }
}

TEST_F(TakeoverTest, TheStepBeforeHasItsOwnPlan) {
  takeover_.OnStep(StepOf({0, 4}));
  takeover_.OnStep(StepOf({0, 2}));
  Lose(1);
  Lose(2);
  EXPECT_THAT(Begin(Step::kThis, 3), ElementsAre(2, 3));
  EXPECT_TRUE(Begin(Step::kBefore, 2).empty());
  Lose(3);
  EXPECT_THAT(Begin(Step::kBefore, 2), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(Begin(Step::kThis, 3), ElementsAre(4, 5, 6, 7));
}

TEST_F(TakeoverTest, NothingIsTakenOverBeforeTheFirstStepOrAfterTheEnd) {
  for (const uint32_t worker : {1, 2, 3}) Lose(worker);
  EXPECT_TRUE(Begin(Step::kThis, 0).empty());
  takeover_.OnStep(StepOf({0, 2}));
  EXPECT_TRUE(Begin(Step::kBefore, 0).empty());
  EXPECT_FALSE(Begin(Step::kThis, 0).empty());
  takeover_.OnStep(StepOf({0, 2}));
  takeover_.Close();
  EXPECT_TRUE(Begin(Step::kThis, 0).empty());
}

TEST_F(TakeoverTest, WhereTheDeviceHasOtherParametersTheKeptOnesAreLoadedFirst) {
  takeover_.OnStep(StepOf({0, 2}));
  takeover_.Keep({{Buffer::CopyOf("a")}, {Buffer::CopyOf("b")}});
  Lose(1);
  Lose(2);
  EXPECT_FALSE(Begin(Step::kThis, 3, /*reload=*/true).empty());
  const auto* load = As<LoadValues>(takeover_.runs().back().instruction(0));
  ASSERT_NE(load, nullptr);
  EXPECT_FALSE(load->shard.has_value());
  EXPECT_EQ(takeover_.values().size(), 2u);
  Lose(3);
  EXPECT_FALSE(Begin(Step::kThis, 3).empty());
  EXPECT_NE(As<RunForward>(takeover_.runs().back().instruction(0)), nullptr);
  takeover_.DropValues();
  EXPECT_TRUE(takeover_.values().empty());
}

TEST_F(TakeoverTest, ARunIsKeptUntilItIsComplete) {
  takeover_.OnStep(StepOf({0, 2}));
  Lose(1);
  Lose(2);
  Begin(Step::kThis, 3);
  Lose(3);
  Begin(Step::kThis, 3);
  ASSERT_EQ(takeover_.runs().size(), 2u);
  EXPECT_EQ(takeover_.Find(3), nullptr);
  ProgramRun* second = takeover_.Find(2);
  ASSERT_NE(second, nullptr);
  for (uint32_t i = 0; i < second->program().instructions.size(); ++i) second->Satisfy(i);
  takeover_.DropCompleted();
  ASSERT_EQ(takeover_.runs().size(), 1u);
  EXPECT_EQ(takeover_.runs()[0].id(), 1u);
  EXPECT_EQ(takeover_.Find(2), nullptr);
}

}  // namespace
}  // namespace soapstone::worker
