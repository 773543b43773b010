#include "worker/program.h"

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

  static size_t Count(const Program& program, Op op) {
    return static_cast<size_t>(std::count_if(program.instructions.begin(),
                                             program.instructions.end(),
                                             [&](const Instruction& i) { return i.op == op; }));
  }
  static size_t First(const Program& program, Op op) {
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
  const Program program = BuildStep(inputs_, PlanTreeNodes({0, 3}, {}, 8, true));
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (uint32_t dep : program.instructions[i].deps) EXPECT_LT(dep, i);
  }
}

TEST_F(ProgramTest, EveryBucketIsPushedOncePerNode) {
  const Program program = BuildStep(inputs_, PlanTreeNodes({0, 3}, {}, 8, true));
  size_t buckets = 0;
  for (uint32_t k = 0; k < 2; ++k) buckets += layout_.buckets(ShardId{k}).size();
  EXPECT_EQ(program.nodes.size(), 2u);  // [0,2) and [2,3)
  EXPECT_EQ(Count(program, Op::kPush), 2 * buckets);
  EXPECT_EQ(Count(program, Op::kClock), 2u);
}

TEST_F(ProgramTest, LastLayersGradientLeavesBeforeTheFirstLayerRunsBackward) {
  const Program program = BuildStep(inputs_, PlanSingleNode({0, 1}, {}));
  const size_t first_push = First(program, Op::kPush);
  size_t last_backward = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].op == Op::kBackward) last_backward = i;
  }
  EXPECT_LT(first_push, last_backward);
}

TEST_F(ProgramTest, ClockComesAfterAllPushesOfItsShard) {
  const Program program = BuildStep(inputs_, PlanSingleNode({0, 1}, {}));
  for (const Instruction& clock : program.instructions) {
    if (clock.op != Op::kClock) continue;
    size_t pushes = 0;
    for (uint32_t dep : clock.deps) {
      const Instruction& before = program.instructions[dep];
      if (before.op != Op::kPush) continue;
      EXPECT_EQ(before.shard, clock.shard);
      ++pushes;
    }
    EXPECT_EQ(pushes, layout_.buckets(clock.shard).size());
  }
}

TEST_F(ProgramTest, StepWithoutLeavesStillClocks) {
  const Program program = BuildStep(inputs_, {});
  EXPECT_EQ(Count(program, Op::kPush), 0u);
  EXPECT_EQ(Count(program, Op::kClock), 2u);
}

TEST_F(ProgramTest, AdoptionOnlyComputesAndPushes) {
  const Program program = BuildAdoption(inputs_, PlanTreeNodes({}, {5}, 8, false));
  EXPECT_EQ(Count(program, Op::kPull), 0u);
  EXPECT_EQ(Count(program, Op::kClock), 0u);
  EXPECT_EQ(Count(program, Op::kForward), 3u);
}

TEST_F(ProgramTest, ReplacementPushesLeavesOneByOne) {
  const auto merged = PlanTreeNodes({0, 4}, {6}, 8, true);
  const auto single = PlanTreeNodes({0, 4}, {6}, 8, false);
  EXPECT_EQ(merged.size(), 2u);
  EXPECT_EQ(single.size(), 5u);
}

}  // namespace
}  // namespace soapstone::worker
