#include "worker/step_schedule.h"

#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/hand_played_engine.h"

namespace soapstone::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = Program::Kind;

class StepScheduleTest : public ::testing::Test {
 protected:
  void Make(const std::string& policy, Clock total_clocks, uint32_t workers = 2) {
    options_ = Shared(SmallJob(policy, 4, total_clocks));
    roster_ = RosterOf(workers);
    schedule_.emplace(options_);
    SendRoster();
  }
  void MakeSeat(Clock lead, Clock total_clocks) {
    Make("ssp:s=4", total_clocks);
    EngineOptions options = *options_;
    const SeatOutline outline = {
        .steps = {{.kind = SeatOutline::Step::Kind::kRun, .ready = {ParamId{0}}}}};
    options.seat = std::make_shared<const SeatOptions>(
        SeatOptions{.steps = {{10, outline}}, .lead = lead, .lead_max = lead});
    options_ = Shared(options);
    schedule_.emplace(options_);
    SendRoster();
  }
  void SendRoster() {
    ++epoch_;
    schedule_->OnRoster(roster_);
  }
  std::shared_ptr<const Program> Next() { return schedule_->Next(roster_, epoch_); }
  // Runs what comes next. Null: nothing does.
  std::shared_ptr<const Program> RunNext() {
    std::shared_ptr<const Program> program = Next();
    if (program != nullptr) schedule_->OnEnd(program->kind);
    return program;
  }
  // Runs up to `most` programs.
  std::vector<Kind> RunAll(size_t most = 100) {
    std::vector<Kind> kinds;
    while (kinds.size() < most) {
      const std::shared_ptr<const Program> program = RunNext();
      if (program == nullptr) break;
      kinds.push_back(program->kind);
    }
    return kinds;
  }

  std::shared_ptr<const EngineOptions> options_;
  wire::Roster roster_;
  Epoch epoch_ = 0;
  std::optional<StepSchedule> schedule_;
};

TEST_F(StepScheduleTest, GradientsAreStepAfterStep) {
  Make("ssp:s=1", 3);
  schedule_->Start(0);
  EXPECT_FALSE(schedule_->has_stepped());
  EXPECT_THAT(RunAll(), ElementsAre(Kind::kStep, Kind::kStep, Kind::kStep));
  EXPECT_TRUE(schedule_->finished());
  EXPECT_TRUE(schedule_->has_stepped());
  EXPECT_EQ(schedule_->clock(), 3);
}

TEST_F(StepScheduleTest, AnElasticWorkerPullsOnceAndExchangesAfterEachPeriodAndTheLastStep) {
  Make("easgd:tau=2", 3);
  schedule_->Start(0);
  EXPECT_THAT(RunAll(), ElementsAre(Kind::kInitialPull, Kind::kLocalStep, Kind::kLocalStep,
                                    Kind::kExchange, Kind::kLocalStep, Kind::kExchange));
  EXPECT_TRUE(schedule_->finished());
}

TEST_F(StepScheduleTest, ALocalWorkerPullsEachRound) {
  Make("localsgd:h=2", 4);
  schedule_->Start(0);
  EXPECT_THAT(RunAll(),
              ElementsAre(Kind::kInitialPull, Kind::kLocalStep, Kind::kLocalStep, Kind::kExchange,
                          Kind::kInitialPull, Kind::kLocalStep, Kind::kLocalStep, Kind::kExchange));
}

// Whenever it is asked to leave: what it has made is pushed before, and it makes no step more.
TEST_F(StepScheduleTest, WhoLeavesExchangesAndIsFlushed) {
  for (const char* policy : {"ssp:s=1", "easgd:tau=3", "localsgd:h=3"}) {
    for (size_t before = 0; before < 8; ++before) {
      Make(policy, 100);
      schedule_->Start(0);
      RunAll(before);
      const std::shared_ptr<const Program> last = Next();
      schedule_->RequestLeave();
      schedule_->OnEnd(last->kind);
      if (last->kind == Kind::kLocalStep) {
        EXPECT_EQ(Next()->kind, Kind::kExchange);
      }
      while (Next()->kind == Kind::kExchange) RunNext();
      EXPECT_EQ(Next()->kind, Kind::kFlush) << policy << " after " << before;
    }
  }
}

TEST_F(StepScheduleTest, AfterTheLastStepNobodyNeedBeFlushed) {
  Make("ssp:s=1", 1);
  schedule_->Start(0);
  schedule_->RequestLeave();
  EXPECT_THAT(RunAll(1), ElementsAre(Kind::kFlush));
  Make("ssp:s=1", 1);
  schedule_->Start(1);
  schedule_->RequestLeave();
  EXPECT_THAT(RunAll(), IsEmpty());
  EXPECT_TRUE(schedule_->finished());
}

// Others of its team may wait for its blocks, and never ask for the clock of such a pull.
TEST_F(StepScheduleTest, ASeatLeavesWithoutAsking) {
  Make("ssp:s=1", 3);
  EngineOptions options = *options_;
  options.seat = std::make_shared<const SeatOptions>(SeatOptions{.lead = 1, .lead_max = 1});
  schedule_.emplace(std::make_shared<const EngineOptions>(options));
  SendRoster();
  schedule_->Start(0);
  schedule_->RequestLeave();
  const std::shared_ptr<const Program> last = Next();
  EXPECT_EQ(last->kind, Kind::kFlush);
  EXPECT_TRUE(last->instructions.empty());
}

TEST_F(StepScheduleTest, AnExchangeHasTheNumberOfItsRound) {
  Make("easgd:tau=2", 3);
  schedule_->Start(0);
  RunAll(3);
  EXPECT_EQ(schedule_->ClocksOf(Kind::kExchange).step, 1);
  EXPECT_EQ(schedule_->ClocksOf(Kind::kExchange).shard, 0);
  RunAll(2);
  EXPECT_EQ(schedule_->ClocksOf(Kind::kExchange).step, 2);
  EXPECT_EQ(schedule_->ClocksOf(Kind::kExchange).shard, 1);
  RunAll();
  EXPECT_EQ(schedule_->ClocksOf(Kind::kFinalEvaluate).shard, 2);
  EXPECT_TRUE(schedule_->ClocksOf(Kind::kFinalEvaluate).final);
}

TEST_F(StepScheduleTest, StartsAreClocksOfShards) {
  Make("easgd:tau=3", 100);
  schedule_->Start(2);
  EXPECT_EQ(schedule_->clock(), 6);
  EXPECT_TRUE(schedule_->IsFirst(6));
  EXPECT_FALSE(schedule_->IsFirst(7));
  Make("allreduce", 100);
  schedule_->Start(1);  // after the hand-in
  EXPECT_EQ(schedule_->clock(), 100);
  EXPECT_TRUE(schedule_->finished());
}

// Steps and bounds as they are drawn: none is begun that is not below a bound in force.
TEST_F(StepScheduleTest, NoStepAtOrAboveTheBoundIsReturned) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const CounterRandom random(seed, RandomUse::kTest, 0);
    Make("ssp:s=1", 50);
    schedule_->Start(0);
    std::optional<Clock> bound;
    for (uint64_t draw = 0; !schedule_->finished(); draw += 2) {
      if (random.Below(draw, 4) == 0) {
        roster_.share_lead = static_cast<Clock>(random.Below(draw + 1, 3));
        const bool held = schedule_->held();
        SendRoster();
        if (roster_.share_lead == 0) {
          bound.reset();
        } else {
          const Clock told = schedule_->Bind(roster_);
          ASSERT_EQ(told, bound.value_or(schedule_->clock() + 1 + roster_.share_lead));
          bound = told;
        }
        ASSERT_EQ(schedule_->TakeReleased(), held && !bound.has_value());
      } else {
        const bool may = !bound.has_value() || schedule_->clock() < *bound;
        ASSERT_EQ(RunNext() != nullptr, may) << "seed " << seed;
        ASSERT_EQ(schedule_->held(), !may);
      }
    }
  }
}

// The same of orders, and of a seat that runs ahead: forward halves of no clock from the bound on.
TEST_F(StepScheduleTest, NoClockAtOrAboveTheOrdersBoundIsBegun) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const CounterRandom random(seed, RandomUse::kTest, 0);
    constexpr Clock kClocks = 40;
    MakeSeat(static_cast<Clock>(random.Below(0, 4)), kClocks);
    schedule_->Start(0);
    Clock bound = kClockMax;
    Clock begun = 0;  // the first that is not
    uint32_t number = 0;
    for (uint64_t draw = 1; !schedule_->finished(); draw += 2) {
      if (random.Below(draw, 4) == 0) {
        const Clock asked = static_cast<Clock>(random.Below(draw + 1, kClocks));
        const bool lifts = random.Below(draw, 3) == 0;
        bound = std::max(lifts ? kClockMax : asked, begun);
        ASSERT_EQ(schedule_->BindBy(++number, lifts ? kClockMax : asked), bound) << seed;
        ASSERT_EQ(schedule_->BindBy(number, 0), bound);
        ASSERT_EQ(schedule_->BindBy(number - 1, 0), std::nullopt);
        schedule_->TakeReleased();
        continue;
      }
      const std::shared_ptr<const Program> next = Next();
      if (next == nullptr) {
        ASSERT_EQ(schedule_->clock(), bound) << "seed " << seed;
        ASSERT_TRUE(schedule_->held());
        continue;
      }
      const bool ahead = next->kind == Kind::kFill || next->lead == 0 || !next->pulls.empty();
      begun += ahead ? 1 : 0;
      ASSERT_LE(begun, std::min(bound, kClocks)) << "seed " << seed;
      schedule_->OnEnd(next->kind);
      if (next->kind == Kind::kStep) {
        ASSERT_LE(schedule_->clock(), begun);
      }
    }
    ASSERT_EQ(begun, kClocks);
  }
}

TEST_F(StepScheduleTest, AProgramIsBuiltOnceForARosterAndItsShares) {
  Make("bsp", 20);
  schedule_->Start(0);
  roster_.shares = {{.from = 2, .micro_batches = {1, 3}}};
  SendRoster();
  const std::shared_ptr<const Program> equal = RunNext();
  EXPECT_EQ(RunNext(), equal);
  EXPECT_THAT(equal->nodes, ElementsAre(NodePlan{{0, 2}, {{0, 1}, {1, 2}}}));
  const std::shared_ptr<const Program> shared = RunNext();
  EXPECT_NE(shared, equal);
  EXPECT_EQ(RunNext(), shared);
  EXPECT_THAT(shared->nodes, ElementsAre(NodePlan{{0, 1}, {{0, 1}}}));
  roster_.workers.pop_back();
  SendRoster();
  const std::shared_ptr<const Program> alone = RunNext();
  EXPECT_EQ(alone->nodes.size(), 3u);  // [0,1), and what the lost one owned: [1,2), [2,4)
  EXPECT_EQ(RunNext(), alone);
}

TEST_F(StepScheduleTest, ANewcomersMicroBatchesAreItsOwnFromItsStart) {
  Make("bsp", 20);
  roster_.workers.pop_back();
  roster_.workers.push_back({.worker = WorkerId{1}, .start = 2, .admitted = 2, .original = false});
  SendRoster();
  schedule_->Start(0);
  std::vector<size_t> parts;
  for (int step = 0; step < 4; ++step) {
    size_t count = 0;
    for (const NodePlan& node : RunNext()->nodes) count += node.parts.size();
    parts.push_back(count);
  }
  EXPECT_THAT(parts, ElementsAre(4, 4, 2, 2));
}

TEST_F(StepScheduleTest, ARoundOfBackupIsMadeWithoutTheLost) {
  Make("backup:b=1", 20);
  roster_.workers.pop_back();
  SendRoster();
  schedule_->Start(0);
  EXPECT_THAT(Next()->nodes, ElementsAre(NodePlan{{0, 2}, {{0, 1}, {1, 2}}}));
}

TEST_F(StepScheduleTest, FastForwardSkipsStepsToTheEndAtMost) {
  Make("backup:b=1", 10);
  schedule_->Start(0);
  RunAll(2);
  EXPECT_EQ(schedule_->FastForward(7), 5u);
  EXPECT_EQ(schedule_->clock(), 7);
  EXPECT_EQ(schedule_->FastForward(12), 3u);
  EXPECT_EQ(schedule_->clock(), 10);
  EXPECT_TRUE(schedule_->finished());
}

}  // namespace
}  // namespace soapstone::worker
