// The promise that a plan is never predicted to be slower than data parallelism, over the whole zoo
// and all example machines; and what data parallelism moves where that was published.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "scheduler/planner/search/mcmc.h"
#include "scheduler/planner/search/space.h"
#include "scheduler/planner/searchers/baselines.h"
#include "scheduler/planner/simulator/simulator.h"
#include "strategy/machine_text.h"

namespace soapstone::planner {
namespace {

constexpr uint64_t kProposals = 50;
// A simulation takes time with both: small graphs on whole machines, large ones on a few devices.
constexpr size_t kSmallOps = 20;
constexpr uint32_t kFewDevices = 8;
constexpr int64_t kSamplesEach = 16;

Machine ExampleMachine(const std::string& name, uint32_t devices_max) {
  std::ifstream file(
      absl::StrCat(SOAPSTONE_SOURCE_DIR, "/examples/machines/", name, ".machine.textproto"));
  std::stringstream text;
  text << file.rdbuf();
  const Machine machine = *ParseMachine(text.str(), name);
  const auto devices = static_cast<uint32_t>(machine.devices().size());
  return *FirstDevices(machine, std::min(devices, devices_max));
}

// Apart from the simulator that a search had.
Score Predicted(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                const Strategy& strategy) {
  Simulator simulator(&graph, &machine, &costs);
  EXPECT_TRUE(simulator.SetStrategy(strategy).ok());
  return {.step_ns = simulator.StepTime(), .overflow_bytes = simulator.Overflow()};
}

std::vector<Strategy> WaysOfDataParallelism(const OpGraph& graph, const Machine& machine) {
  std::vector<Strategy> ways;
  for (const Synchronization way :
       {Synchronization::kOwner, Synchronization::kRing, Synchronization::kServers}) {
    if (way == Synchronization::kServers && machine.servers().empty()) continue;
    ways.push_back(DataParallel(graph, static_cast<uint32_t>(machine.devices().size())));
    ways.back().synchronization = way;
  }
  return ways;
}

class NeverWorseTest : public testing::TestWithParam<const char*> {};

TEST_P(NeverWorseTest, ThanDataParallelismByAnyModel) {
  for (const std::string& model : models::ModelNames()) {
    const models::Graph whole = *models::BuildModel(model, models::ModelInput{});
    const Machine machine =
        ExampleMachine(GetParam(), whole.ops().size() <= kSmallOps ? kDevicesMax : kFewDevices);
    const auto devices = static_cast<int64_t>(machine.devices().size());
    const OpGraph graph = *MakeOpGraph(whole, {.batch = kSamplesEach * devices});
    const RooflineCost costs(machine.kinds(), UsualEfficiencies());
    const std::vector<Strategy> ways = WaysOfDataParallelism(graph, machine);
    Score data;
    for (const Strategy& way : ways) {
      data = std::min(data, Predicted(graph, machine, costs, way));
    }
    const Space space(&graph, &machine);
    const auto result = SearchByWalk(
        space, costs, ways, {.seed = 1, .proposals = kProposals, .chains = 1, .descend = false});
    ASSERT_TRUE(result.ok()) << model << ": " << result.status();
    ASSERT_TRUE(CheckStrategy(graph, machine, result->strategy).ok()) << model;
    const Score found = Predicted(graph, machine, costs, result->strategy);
    EXPECT_EQ(found.step_ns, result->found.step_ns) << model;
    EXPECT_EQ(found.overflow_bytes, result->found.overflow_bytes) << model;
    EXPECT_FALSE(data < found) << model << ": " << found.step_ns << " ns, data parallelism "
                               << data.step_ns << " ns";
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, NeverWorseTest,
                         testing::Values("p100_4x4", "k80_16x4", "dgx_h100_pod",
                                         "heterogeneous_pair"));

// Jia et al. 2019: 65.8 GB a step of 64 K80s, 64 samples each, steps in chunks of 8.
TEST(DataParallelTest, MovesWhatWasPublishedOfGnmt) {
  const Machine machine = ExampleMachine("k80_16x4", kDevicesMax);
  const OpGraph graph = *MakeOpGraph(*models::BuildModel("gnmt", models::ModelInput{}),
                                     {.batch = 64 * 64, .time_chunk = 8});
  const RooflineCost costs(machine.kinds(), UsualEfficiencies());
  Simulator simulator(&graph, &machine, &costs);
  Strategy strategy = DataParallel(graph, 64);
  strategy.synchronization = Synchronization::kRing;
  ASSERT_TRUE(simulator.SetStrategy(strategy).ok());
  const Breakdown breakdown = simulator.Explain();
  EXPECT_NEAR(static_cast<double>(breakdown.transfer_bytes + breakdown.sync_bytes), 65.8e9, 6.58e9);
}

}  // namespace
}  // namespace soapstone::planner
