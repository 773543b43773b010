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

  static size_t Count(const Program& program, OpCode op) {
    return static_cast<size_t>(std::count_if(program.instructions.begin(),
                                             program.instructions.end(),
                                             [&](const Instruction& i) { return i.op == op; }));
  }
  static size_t First(const Program& program, OpCode op) {
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      if (program.instructions[i].op == op) return i;
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
  EXPECT_EQ(Count(program, OpCode::kPush), 2 * buckets);
  EXPECT_EQ(Count(program, OpCode::kClock), 2u);
}

TEST_F(ProgramTest, LastLayersGradientLeavesBeforeTheFirstLayerRunsBackward) {
  const Program program = BuildStep(inputs_, PlanSingleNode({0, 1}, {}));
  const size_t first_push = First(program, OpCode::kPush);
  size_t last_backward = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].op == OpCode::kBackward) last_backward = i;
  }
  EXPECT_LT(first_push, last_backward);
}

TEST_F(ProgramTest, ClockComesAfterAllPushesOfItsShard) {
  const Program program = BuildStep(inputs_, PlanSingleNode({0, 1}, {}));
  for (const Instruction& clock : program.instructions) {
    if (clock.op != OpCode::kClock) continue;
    size_t pushes = 0;
    for (uint32_t dep : clock.deps) {
      const Instruction& before = program.instructions[dep];
      if (before.op != OpCode::kPush) continue;
      EXPECT_EQ(before.shard, clock.shard);
      ++pushes;
    }
    EXPECT_EQ(pushes, layout_.buckets(clock.shard).size());
  }
}

TEST_F(ProgramTest, StepWithoutLeavesStillClocks) {
  const Program program = BuildStep(inputs_, {});
  EXPECT_EQ(Count(program, OpCode::kPush), 0u);
  EXPECT_EQ(Count(program, OpCode::kClock), 2u);
}

TEST_F(ProgramTest, ATakeoverOnlyComputesAndPushes) {
  const Program program = BuildTakeover(inputs_, PlanTreeNodes({}, {5}, 8, Merge::kAll));
  EXPECT_EQ(Count(program, OpCode::kPull), 0u);
  EXPECT_EQ(Count(program, OpCode::kClock), 0u);
  EXPECT_EQ(Count(program, OpCode::kForward), 3u);
}

TEST_F(ProgramTest, LeavesArePushedAsNodesWhereTheyMayBe) {
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
  EXPECT_EQ(Count(program, OpCode::kKeys), 2u);  // of each part
  EXPECT_EQ(First(program, OpCode::kKeys), 0u);
  const size_t pull = First(program, OpCode::kPull);
  EXPECT_EQ(program.instructions[pull].deps, std::vector<uint32_t>{1});
  EXPECT_EQ(Count(program, OpCode::kPush), 4u);  // a table on a shard each
  EXPECT_GT(First(program, OpCode::kCollect), First(program, OpCode::kBackward));

  inputs.keys_of_leaves = 8;  // any leaf may have to be computed
  const Program whole = BuildStep(inputs, PlanSingleNode({0, 2}, {5}));
  EXPECT_EQ(Count(whole, OpCode::kKeys), 1u);
  EXPECT_EQ(whole.instructions[0].part, (MicroBatchRange{0, 8}));

  const Program evaluate = BuildFinalEvaluate(inputs);
  EXPECT_EQ(evaluate.instructions[0].op, OpCode::kKeys);
  EXPECT_EQ(evaluate.instructions[0].index, 1u);
}

// Slices leave as the backward pass makes them, rows when it is over.
TEST_F(ProgramTest, AModelMayHaveTablesAndTensors) {
  const wire::Layout layout = *wire::Layout::Build(
      layout_.params(), {.shard_count = 2, .bucket_bytes = 4000, .tables = {{.name = "a"}}});
  const ProgramInputs inputs = {.layout = &layout, .ops = &ops_};
  const Program program = BuildStep(inputs, PlanSingleNode({0, 1}, {}));
  EXPECT_EQ(First(program, OpCode::kKeys), 0u);
  EXPECT_EQ(Count(program, OpCode::kPush),
            layout.bucket_count(ShardId{0}) + layout.bucket_count(ShardId{1}));
  size_t last_backward = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].op == OpCode::kBackward) last_backward = i;
  }
  EXPECT_LT(First(program, OpCode::kPush), last_backward);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& push = program.instructions[i];
    if (push.op != OpCode::kPush || !layout.TableOf(push.shard, push.bucket).has_value()) continue;
    EXPECT_GT(i, last_backward);
  }
}

// The same layers in two stages on two servers.
class StagedProgramTest : public ProgramTest {
 protected:
  StagedProgramTest() {
    layout_ = *wire::Layout::Build(
        {{.name = "first", .shape = {1000, 1}}, {.name = "last", .shape = {8000, 1}}},
        {.shard_count = 4, .bucket_bytes = 4000, .stages = 2});
    inputs_.by_stages = true;
  }
};

TEST_F(StagedProgramTest, LoadsStandBeforeTheOperatorThatNeedsThem) {
  const Program program = BuildStep(inputs_, PlanTreeNodes({0, 3}, {}, 8, Merge::kOwn));
  std::vector<bool> loaded(4);
  size_t loads = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.op == OpCode::kLoad) {
      EXPECT_FALSE(instruction.all);
      loaded[Index(instruction.shard)] = true;
      ++loads;
    }
    if (instruction.op != OpCode::kForward) continue;
    for (uint32_t k = 0; k < 4; ++k) {
      for (const wire::Slice& slice : layout_.slices(ShardId{k})) {
        const auto& params = ops_[instruction.index].params;
        const bool needed = std::find(params.begin(), params.end(), slice.param) != params.end();
        EXPECT_TRUE(!needed || loaded[k]) << "operator " << instruction.index << ", shard " << k;
      }
    }
  }
  EXPECT_EQ(loads, 4u);
}

TEST_F(StagedProgramTest, TheFirstOperatorDoesNotWaitForTheLastStage) {
  const Program program = BuildStep(inputs_, PlanSingleNode({0, 1}, {}));
  const size_t first = First(program, OpCode::kForward);
  size_t loads_before = 0;
  for (size_t i = 0; i < first; ++i) loads_before += program.instructions[i].op == OpCode::kLoad;
  EXPECT_EQ(loads_before, 2u);  // of stage 0, one a server
}

TEST_F(StagedProgramTest, AShardIsAskedForItsNextValuesAfterItsClock) {
  const Program program = BuildStep(inputs_, PlanSingleNode({0, 1}, {}));
  EXPECT_EQ(Count(program, OpCode::kPrefetch), 4u);
  for (const Instruction& ahead : program.instructions) {
    if (ahead.op != OpCode::kPrefetch) continue;
    ASSERT_EQ(ahead.deps.size(), 1u);
    EXPECT_EQ(program.instructions[ahead.deps[0]].op, OpCode::kClock);
    EXPECT_EQ(program.instructions[ahead.deps[0]].shard, ahead.shard);
  }
}

TEST_F(StagedProgramTest, AStepWithoutLeavesLoadsAllTheSame) {
  EXPECT_EQ(Count(BuildStep(inputs_, {}), OpCode::kLoad), 4u);
}

TEST_F(StagedProgramTest, ATakeoverLoadsAgainFirst) {
  const Program program = BuildTakeover(inputs_, PlanTreeNodes({}, {5}, 8, Merge::kAll), true);
  EXPECT_EQ(program.instructions[0].op, OpCode::kLoad);
  EXPECT_TRUE(program.instructions[0].all);
}

TEST_F(ProgramTest, WholeNodesLeaveAfterTheirLastGradientWithEveryBucketOnce) {
  const std::vector<NodePlan> plan = PlanTreeNodes({0, 3}, {}, 8, Merge::kAll);
  const Program plain = BuildStep(inputs_, plan);
  inputs_.whole_nodes = true;
  const Program whole = BuildStep(inputs_, plan);
  EXPECT_EQ(Count(whole, OpCode::kPush), Count(plain, OpCode::kPush));
  const auto& instructions = whole.instructions;
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (instructions[i].op != OpCode::kCollect) continue;
    for (size_t j = i; j < instructions.size(); ++j) {
      EXPECT_FALSE(instructions[j].op == OpCode::kBackward &&
                   instructions[j].node == instructions[i].node);
    }
  }
}

}  // namespace
}  // namespace soapstone::worker
