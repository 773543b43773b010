#include "worker/program/program.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::worker {
namespace {

// Two layers of one parameter each, on two shards: the second, larger one is sliced over both.
class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest()
      : layout_(*wire::Layout::Build(
            {{.name = "first", .shape = {1000}}, {.name = "last", .shape = {8000}}},
            {.shard_count = 2, .bucket_bytes = 4000})),
        ops_({{{ParamId{0}}}, {}, {{ParamId{1}}}}),
        inputs_{&layout_, &ops_} {}

  template <typename What>
  static size_t Count(const Program& program) {
    return static_cast<size_t>(
        std::count_if(program.instructions.begin(), program.instructions.end(),
                      [](const Instruction& i) { return As<What>(i) != nullptr; }));
  }
  template <typename What>
  static size_t First(const Program& program) {
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      if (As<What>(program.instructions[i])) return i;
    }
    return program.instructions.size();
  }

  wire::Layout layout_;
  std::vector<OpOutline> ops_;
  ProgramInputs inputs_;
};

TEST_F(ProgramTest, DependenciesPointBackwards) {
  const Program program = BuildStep(inputs_, PlanTreeNodes({0, 3}, {}, 8, Merge::kOwn));
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (uint32_t dep : program.instructions[i].deps) EXPECT_LT(dep, i);
  }
}

TEST_F(ProgramTest, EveryBucketIsPushedOncePerNode) {
  const Program program = BuildStep(inputs_, PlanTreeNodes({0, 3}, {}, 8, Merge::kOwn));
  size_t buckets = 0;
  for (uint32_t k = 0; k < 2; ++k) buckets += layout_.buckets(ShardId{k}).size();
  EXPECT_EQ(program.nodes.size(), 2u);  // [0,2) and [2,3)
  EXPECT_EQ(Count<SendPush>(program), 2 * buckets);
  EXPECT_EQ(Count<SendClock>(program), 2u);
}

TEST_F(ProgramTest, LastLayersGradientLeavesBeforeTheFirstLayerRunsBackward) {
  const Program program = BuildStep(inputs_, PlanSingleNode({0, 1}, {}));
  const size_t first_push = First<SendPush>(program);
  size_t last_backward = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (As<RunBackward>(program.instructions[i])) last_backward = i;
  }
  EXPECT_LT(first_push, last_backward);
}

TEST_F(ProgramTest, ClockComesAfterAllPushesOfItsShard) {
  const Program program = BuildStep(inputs_, PlanSingleNode({0, 1}, {}));
  for (const Instruction& instruction : program.instructions) {
    const auto* clock = As<SendClock>(instruction);
    if (clock == nullptr) continue;
    size_t pushes = 0;
    for (uint32_t dep : instruction.deps) {
      const auto* push = As<SendPush>(program.instructions[dep]);
      if (push == nullptr) continue;
      EXPECT_EQ(push->shard, clock->shard);
      ++pushes;
    }
    EXPECT_EQ(pushes, layout_.buckets(clock->shard).size());
  }
}

TEST_F(ProgramTest, StepWithoutMicroBatchesStillClocks) {
  const Program program = BuildStep(inputs_, {});
  EXPECT_EQ(Count<SendPush>(program), 0u);
  EXPECT_EQ(Count<SendClock>(program), 2u);
}

TEST_F(ProgramTest, ATakeoverOnlyComputesAndPushes) {
  const Program program = BuildTakeover(inputs_, PlanTreeNodes({}, {5}, 8, Merge::kAll));
  EXPECT_EQ(Count<SendPull>(program), 0u);
  EXPECT_EQ(Count<SendClock>(program), 0u);
  EXPECT_EQ(Count<RunForward>(program), 3u);
}

TEST_F(ProgramTest, MicroBatchesArePushedAsNodesWhereTheyMayBe) {
  const auto nodes = [](Merge merge) {
    std::vector<MicroBatchRange> ranges;
    for (const NodePlan& plan : PlanTreeNodes({0, 4}, {8, 9, 10, 13}, 16, merge)) {
      ranges.push_back(plan.node);
    }
    return ranges;
  };
  using Ranges = std::vector<MicroBatchRange>;
  EXPECT_EQ(nodes(Merge::kAll), (Ranges{{0, 4}, {8, 10}, {10, 11}, {13, 14}}));
  EXPECT_EQ(nodes(Merge::kOwn), (Ranges{{0, 4}, {8, 9}, {9, 10}, {10, 11}, {13, 14}}));
  EXPECT_EQ(nodes(Merge::kNone).size(), 8u);
}

TEST_F(ProgramTest, RowsAreAskedForBeforeThePullAndPushedAfterTheBackwardPass) {
  const wire::Layout layout =
      *wire::Layout::Build({}, {.shard_count = 2, .tables = {{.name = "a"}, {.name = "b"}}});
  const std::vector<OpOutline> ops(1);
  ProgramInputs inputs = {.layout = &layout, .ops = &ops};
  const Program program = BuildStep(inputs, PlanSingleNode({0, 2}, {5}));
  EXPECT_EQ(Count<FindKeys>(program), 2u);  // of each part
  EXPECT_EQ(First<FindKeys>(program), 0u);
  const size_t pull = First<SendPull>(program);
  EXPECT_EQ(program.instructions[pull].deps, std::vector<uint32_t>{1});
  const FindKeys taken_over = {.part = {5, 6}, .last = true};  // of the run that its part begins
  EXPECT_EQ(*As<FindKeys>(program.instructions[0]), (FindKeys{.part = {0, 2}, .first = true}));
  EXPECT_EQ(*As<FindKeys>(program.instructions[1]), taken_over);
  EXPECT_EQ(Count<SendPush>(program), 4u);  // a table on a shard each
  EXPECT_GT(First<CollectBucket>(program), First<RunBackward>(program));

  inputs.keys_of_micro_batches = 8;  // any micro-batch may have to be computed
  const Program whole = BuildStep(inputs, PlanSingleNode({0, 2}, {5}));
  EXPECT_EQ(Count<FindKeys>(whole), 1u);
  const FindKeys of_all = {.part = {0, 8}, .first = true, .last = true};
  EXPECT_EQ(*As<FindKeys>(whole.instructions[0]), of_all);

  const Program evaluate = BuildFinalEvaluate(inputs);
  const FindKeys held_out = {.held_out = true, .first = true, .last = true};
  EXPECT_EQ(*As<FindKeys>(evaluate.instructions[0]), held_out);
}

// Slices leave as the backward pass makes them, rows when it is over.
TEST_F(ProgramTest, AModelMayHaveTablesAndTensors) {
  const wire::Layout layout = *wire::Layout::Build(
      layout_.params(), {.shard_count = 2, .bucket_bytes = 4000, .tables = {{.name = "a"}}});
  const ProgramInputs inputs = {.layout = &layout, .ops = &ops_};
  const Program program = BuildStep(inputs, PlanSingleNode({0, 1}, {}));
  EXPECT_EQ(First<FindKeys>(program), 0u);
  EXPECT_EQ(Count<SendPush>(program),
            layout.bucket_count(ShardId{0}) + layout.bucket_count(ShardId{1}));
  size_t last_backward = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (As<RunBackward>(program.instructions[i])) last_backward = i;
  }
  EXPECT_LT(First<SendPush>(program), last_backward);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* push = As<SendPush>(program.instructions[i]);
    if (push == nullptr || !layout.TableOf(push->shard, push->bucket).has_value()) continue;
    EXPECT_GT(i, last_backward);
  }
}

// The same layers in two transfer stages on two servers.
class StagedProgramTest : public ProgramTest {
 protected:
  StagedProgramTest() {
    layout_ = *wire::Layout::Build(
        {{.name = "first", .shape = {1000, 1}}, {.name = "last", .shape = {8000, 1}}},
        {.shard_count = 4, .bucket_bytes = 4000, .transfer_stages = 2});
    inputs_.by_transfer_stages = inputs_.asks_early = true;
  }
};

TEST_F(StagedProgramTest, LoadsStandBeforeTheOperatorThatNeedsThem) {
  const Program program = BuildStep(inputs_, PlanTreeNodes({0, 3}, {}, 8, Merge::kOwn));
  std::vector<bool> loaded(4);
  size_t loads = 0;
  for (const Instruction& instruction : program.instructions) {
    if (const auto* load = As<LoadValues>(instruction)) {
      loaded[Index(load->shard.value())] = true;
      ++loads;
    }
    const auto* forward = As<RunForward>(instruction);
    if (forward == nullptr) continue;
    for (uint32_t k = 0; k < 4; ++k) {
      for (const wire::Slice& slice : layout_.slices(ShardId{k})) {
        const auto& params = ops_[forward->op].params;
        const bool needed = std::find(params.begin(), params.end(), slice.param) != params.end();
        EXPECT_TRUE(!needed || loaded[k]) << "operator " << forward->op << ", shard " << k;
      }
    }
  }
  EXPECT_EQ(loads, 4u);
}

TEST_F(StagedProgramTest, TheFirstOperatorDoesNotWaitForTheLastStage) {
  const Program program = BuildStep(inputs_, PlanSingleNode({0, 1}, {}));
  const size_t first = First<RunForward>(program);
  size_t loads_before = 0;
  for (size_t i = 0; i < first; ++i) {
    loads_before += As<LoadValues>(program.instructions[i]) != nullptr ? 1 : 0;
  }
  EXPECT_EQ(loads_before, 2u);  // of transfer stage 0, one a server
}

TEST_F(StagedProgramTest, AShardIsAskedForItsNextValuesAfterItsClock) {
  const Program program = BuildStep(inputs_, PlanSingleNode({0, 1}, {}));
  EXPECT_EQ(Count<SendPrefetch>(program), 4u);
  for (const Instruction& instruction : program.instructions) {
    const auto* ahead = As<SendPrefetch>(instruction);
    if (ahead == nullptr) continue;
    ASSERT_EQ(instruction.deps.size(), 1u);
    const auto* clock = As<SendClock>(program.instructions[instruction.deps[0]]);
    ASSERT_NE(clock, nullptr);
    EXPECT_EQ(clock->shard, ahead->shard);
  }
}

TEST_F(StagedProgramTest, AStepWithoutMicroBatchesLoadsAllTheSame) {
  EXPECT_EQ(Count<LoadValues>(BuildStep(inputs_, {})), 4u);
}

TEST_F(StagedProgramTest, ATakeoverLoadsAgainFirst) {
  const Program program = BuildTakeover(inputs_, PlanTreeNodes({}, {5}, 8, Merge::kAll), true);
  const auto* load = As<LoadValues>(program.instructions[0]);
  ASSERT_NE(load, nullptr);
  EXPECT_FALSE(load->shard.has_value());
}

TEST_F(ProgramTest, WholeNodesLeaveAfterTheirLastGradientWithEveryBucketOnce) {
  const std::vector<NodePlan> plan = PlanTreeNodes({0, 3}, {}, 8, Merge::kAll);
  const Program plain = BuildStep(inputs_, plan);
  inputs_.whole_nodes = true;
  const Program whole = BuildStep(inputs_, plan);
  EXPECT_EQ(Count<SendPush>(whole), Count<SendPush>(plain));
  const auto& instructions = whole.instructions;
  for (size_t i = 0; i < instructions.size(); ++i) {
    const auto* collect = As<CollectBucket>(instructions[i]);
    if (collect == nullptr) continue;
    for (size_t j = i; j < instructions.size(); ++j) {
      const auto* backward = As<RunBackward>(instructions[j]);
      EXPECT_FALSE(backward != nullptr && backward->node == collect->node);
    }
  }
}

// A seat that takes a block, runs two halves, gives one, and runs the half that completes both
// parameters.
SeatOutline SmallSeat() {
  using Kind = SeatOutline::Step::Kind;
  return {.steps = {{.kind = Kind::kTake, .index = 0},
                    {.kind = Kind::kRun},
                    {.kind = Kind::kRun},
                    {.kind = Kind::kGive, .index = 0},
                    {.kind = Kind::kRun, .ready = {ParamId{0}, ParamId{1}}}},
          .incoming = {{.number = 7, .seat = 2, .bytes = 16}},
          .outgoing = {{.number = 8, .seat = 3, .bytes = 16}},
          .grants = {{.number = 20, .seat = 2}},
          .awaited = {{.number = 21, .seat = 3}}};
}

TEST_F(ProgramTest, ASeatRunsItsStepsInOrderAndSendsWhatIsReady) {
  const Program program = BuildSeatStep(inputs_, SmallSeat(), {0, 4});
  std::vector<RunSection> runs;
  for (const Instruction& instruction : program.instructions) {
    if (const auto* run = As<RunSection>(instruction)) runs.push_back(*run);
  }
  EXPECT_EQ(runs, (std::vector<RunSection>{{1, 3}, {4, 5}}));
  EXPECT_EQ(program.receives.size(), 2u);  // of the block, and of the word from seat 3
  EXPECT_EQ(Count<SendBlock>(program), 2u);
  EXPECT_EQ(As<SendBlock>(program.instructions[First<SendBlock>(program)])->number, 20u);
  EXPECT_LT(First<RunSection>(program), First<GiveBlock>(program));
  size_t buckets = 0;
  for (uint32_t k = 0; k < 2; ++k) buckets += layout_.buckets(ShardId{k}).size();
  EXPECT_EQ(Count<SendPush>(program), buckets);
  EXPECT_EQ(Count<SendClock>(program), 2u);
  // A block is taken once it is here, and not before word of its clock.
  const Instruction& take = program.instructions[First<TakeBlock>(program)];
  EXPECT_EQ(std::count(take.deps.begin(), take.deps.end(), program.receives.at(7)), 1);
  const Instruction& begin = program.instructions[First<BeginBatch>(program)];
  EXPECT_EQ(std::count(begin.deps.begin(), begin.deps.end(), program.receives.at(21)), 1);
}

TEST_F(ProgramTest, ALocalStepOfASeatSaysNothingToShards) {
  const Program program = BuildSeatLocalStep(inputs_, SmallSeat(), {0, 4});
  EXPECT_EQ(program.kind, Program::Kind::kLocalStep);
  EXPECT_EQ(program.loads, 0u);
  EXPECT_EQ(Count<SendPull>(program) + Count<SendPush>(program) + Count<SendClock>(program), 0u);
  EXPECT_EQ(program.receives.size(), 2u);
  EXPECT_EQ(Count<SendBlock>(program), 2u);
  ASSERT_EQ(Count<UpdateLocally>(program), 1u);
  EXPECT_EQ(First<UpdateLocally>(program), program.instructions.size() - 1);
}

// Its first four steps are forward.
SeatOutline SeatThatLeads() {
  SeatOutline outline = SmallSeat();
  outline.backward_from = 4;
  return outline;
}

TEST_F(ProgramTest, ASeatThatLeadsRunsForwardOfALaterClock) {
  const SeatOutline seat = SeatThatLeads();
  const Program program = BuildSeatStepAhead(inputs_, seat, &seat, 2, {0, 4});
  EXPECT_EQ(program.lead, 2);
  for (const Instruction& instruction : program.instructions) {
    const auto* run = As<RunSection>(instruction);
    const bool forward = run != nullptr && run->last <= 4;
    const bool ahead = forward || As<SendPull>(instruction) || As<LoadValues>(instruction) ||
                       As<BeginBatch>(instruction) || As<TakeBlock>(instruction) ||
                       As<GiveBlock>(instruction);
    if (const auto* send = As<SendBlock>(instruction)) {
      EXPECT_EQ(instruction.ahead, send->number == 8 ? 2 : 0);
    } else if (const auto* receive = As<ReceiveBlock>(instruction)) {
      EXPECT_EQ(instruction.ahead, receive->number == 7 ? 2 : 0);
    } else {
      EXPECT_EQ(instruction.ahead, ahead ? 2 : 0);
    }
  }
  EXPECT_LT(First<BeginBatch>(program), First<SendPush>(program));
  EXPECT_EQ(Count<SendClock>(program), 2u);
  const Instruction& begin = program.instructions[First<BeginBatch>(program)];
  EXPECT_EQ(std::count(begin.deps.begin(), begin.deps.end(), program.receives.at(21)), 1);
}

TEST_F(ProgramTest, ASeatThatLeadsEndsWithBackwardHalvesAlone) {
  const SeatOutline seat = SeatThatLeads();
  const Program program = BuildSeatStepAhead(inputs_, seat, nullptr, 2, {0, 4});
  EXPECT_EQ(Count<SendPull>(program) + Count<BeginBatch>(program) + Count<TakeBlock>(program), 0u);
  EXPECT_EQ(Count<RunSection>(program), 1u);
  EXPECT_EQ(Count<SendClock>(program), 2u);
  // Word of the clock is waited for all the same.
  const Instruction& run = program.instructions[First<RunSection>(program)];
  EXPECT_EQ(std::count(run.deps.begin(), run.deps.end(), program.receives.at(21)), 1);
}

// One that sends forward and has a part of the loss itself begins backward by computing.
TEST_F(ProgramTest, ASeatThatLeadsMayEndWithoutWordOfAnybody) {
  SeatOutline seat = SeatThatLeads();
  seat.grants.clear();
  seat.awaited.clear();
  const Program program = BuildSeatStepAhead(inputs_, seat, nullptr, 2, {0, 4});
  EXPECT_EQ(First<RunSection>(program), 0u);
  EXPECT_EQ(Count<SendClock>(program), 2u);
}

TEST_F(ProgramTest, ASeatThatLeadsBeginsWithForwardHalvesAlone) {
  const Program program = BuildSeatFill(inputs_, SeatThatLeads());
  EXPECT_EQ(Count<SendPull>(program), 2u);
  EXPECT_EQ(Count<SendPush>(program) + Count<SendClock>(program), 0u);
  EXPECT_EQ(program.receives.size(), 1u);
}

TEST_F(ProgramTest, ASeatThatReadsAheadAsksOnceItsOwnValuesAreHere) {
  ProgramInputs inputs = inputs_;
  inputs.reads_ahead = true;
  const Program program = BuildSeatStep(inputs, SmallSeat(), {0, 4});
  EXPECT_EQ(Count<SendPrefetch>(program), 2u);
  const Instruction& ahead = program.instructions[First<SendPrefetch>(program)];
  EXPECT_EQ(ahead.deps, std::vector<uint32_t>{program.pulls[0]});
}

TEST_F(ProgramTest, ASeatEvaluatesWithoutParametersOnTheirWay) {
  const Program program = BuildSeatEvaluation(inputs_, SmallSeat(), /*last=*/true);
  EXPECT_EQ(Count<SendPull>(program) + Count<SendPush>(program) + Count<SendClock>(program), 0u);
  EXPECT_NE(As<EvaluateModel>(program.instructions.back()), nullptr);
  EXPECT_EQ(Count<EvaluateModel>(BuildSeatEvaluation(inputs_, SmallSeat(), false)), 0u);
}

}  // namespace
}  // namespace soapstone::worker
