#include "scheduler/planner/simulator/trials.h"

#include <atomic>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/search/space.h"

namespace soapstone::planner {
namespace {

// Blocks for operators, drawn once, on eight devices: some 800 tasks a simulation.
struct TrialsCase {
  explicit TrialsCase(size_t count) : machine(FakeMachine({.nodes = 2, .devices_per_node = 4})) {
    graph = *MakeOpGraph(*models::BuildModel("gnmt:tiny", models::ModelInput()),
                         {.batch = 64, .time_chunk = 4});
    const Space space(&graph, &machine);
    RandomSource random(3, 0);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t op = random.Below(static_cast<uint32_t>(graph.ops.size()));
      drawn.push_back({op, {}});
      space.DrawBlock(op, &random, &drawn.back().config);
    }
  }

  struct Outcome {
    bool kept = false, stopped = false;
    Nanos before = 0, step = 0;
    uint64_t proposed = 0;
    Strategy strategy;
  };
  Outcome Run(TrialLimits limits, int rounds = 1) const {
    Simulator simulator(&graph, &machine, &costs);
    CHECK(simulator.SetStrategy(DataParallel(graph, 8)).ok());
    Outcome outcome = {.before = simulator.StepTime()};
    {
      Trials trials(&simulator, std::move(limits));
      for (int round = 0; round < rounds; ++round) {
        outcome.kept |= trials.Run(
            drawn.size(), [this](const Simulator& now, size_t i, Trials::Proposal* proposal) {
              const Change& change = drawn[i];
              if (!(now.config(change.op) == change.config)) proposal->changes = {change};
            });
      }
      outcome.stopped = trials.stopped();
    }
    outcome.step = simulator.StepTime();
    outcome.proposed = simulator.counts().proposed;
    outcome.strategy = simulator.strategy();
    return outcome;
  }

  Machine machine;
  OpGraph graph;
  std::vector<Change> drawn;
  FakeCosts costs;
};

TEST(TrialsTest, ThreadsKeepWhatOneDoes) {
  const TrialsCase c(400);
  const TrialsCase::Outcome alone = c.Run({}, 2);
  EXPECT_TRUE(alone.kept);
  EXPECT_LT(alone.step, alone.before);
  for (const uint32_t threads : {2u, 3u}) {
    const TrialsCase::Outcome together = c.Run({.threads = threads}, 2);
    EXPECT_EQ(together.step, alone.step) << threads;
    EXPECT_EQ(together.strategy, alone.strategy) << threads;
    // Those behind one that was kept were looked at twice, or more threads looked at nothing.
    EXPECT_GT(together.proposed, alone.proposed) << threads;
  }
}

TEST(TrialsTest, LimitsHold) {
  const TrialsCase c(400);
  const TrialsCase::Outcome few = c.Run({.proposals = 10, .threads = 2});
  EXPECT_TRUE(few.stopped);
  EXPECT_EQ(few.proposed, 10u);
  for (const uint32_t threads : {1u, 2u}) {
    std::atomic<int> asked = 0;
    const TrialsCase::Outcome stopped =
        c.Run({.stop = [&asked] { return ++asked > 1; }, .threads = threads});
    EXPECT_TRUE(stopped.stopped) << threads;
    EXPECT_LT(stopped.proposed, 400u + 256u) << threads;
    EXPECT_LE(stopped.step, stopped.before) << threads;
  }
}

TEST(TrialsTest, NothingToTry) {
  const TrialsCase c(0);
  EXPECT_FALSE(c.Run({.threads = 2}).kept);
}

}  // namespace
}  // namespace soapstone::planner
