#include "scheduler/planner/searchers/baselines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "strategy/machine_text.h"

namespace soapstone::planner {
namespace {

Machine MachineNamed(const std::string& name) {
  std::ifstream file(
      absl::StrCat(SOAPSTONE_SOURCE_DIR, "/examples/machines/", name, ".machine.textproto"));
  std::stringstream text;
  text << file.rdbuf();
  return *ParseMachine(text.str(), name);
}

struct Case {
  Case(const std::string& model, const std::string& machine_name, int64_t time_chunk = 0)
      : graph(*MakeOpGraph(*models::BuildModel(model, models::ModelInput{}),
                           {.batch = 64, .time_chunk = time_chunk})),
        machine(MachineNamed(machine_name)),
        costs(machine.kinds(), {}) {}
  std::vector<Nanos> Loads(const Strategy& strategy) const {
    std::vector<Nanos> loads(machine.devices().size(), 0);
    for (size_t i = 0; i < graph.ops.size(); ++i) {
      for (uint32_t part = 0; part < strategy.ops[i].devices.size(); ++part) {
        const uint32_t device = strategy.ops[i].devices[part];
        const PartCost cost =
            costs.CostOf(graph.ops[i], PartBlock(graph.ops[i], strategy.ops[i], part),
                         machine.devices()[device].kind);
        loads[device] += cost.forward_ns + cost.backward_ns;
      }
    }
    return loads;
  }
  OpGraph graph;
  Machine machine;
  RooflineCost costs;
};

TEST(BaselinesTest, FitEveryModelAndMachine) {
  for (const std::string& model : models::ModelNames()) {
    for (const char* machine : {"p100_4x4", "dgx_h100_pod", "heterogeneous_pair"}) {
      const Case c(model + ":tiny", machine, 3);
      EXPECT_TRUE(
          CheckStrategy(c.graph, c.machine, ModelParallel(c.graph, c.machine, c.costs)).ok());
      EXPECT_TRUE(CheckStrategy(c.graph, c.machine, ExpertStrategy(c.graph, c.machine)).ok());
    }
  }
}

TEST(ModelParallelTest, NoOperatorIsSplitAndChunksStayTogether) {
  const Case c("gnmt", "p100_4x4", 10);
  const Strategy strategy = ModelParallel(c.graph, c.machine, c.costs);
  std::map<uint32_t, std::set<uint32_t>> devices;  // by group
  for (size_t i = 0; i < c.graph.ops.size(); ++i) {
    ASSERT_EQ(strategy.ops[i].devices.size(), 1u);
    devices[c.graph.ops[i].group].insert(strategy.ops[i].devices[0]);
  }
  for (const auto& [group, of_group] : devices) EXPECT_EQ(of_group.size(), 1u);
}

// By hand: with loads in order no contiguous assignment has a smaller greatest load.
TEST(ModelParallelTest, NoContiguousAssignmentIsBetter) {
  const Case c("lenet5", "heterogeneous_pair");
  const std::vector<Nanos> loads = c.Loads(ModelParallel(c.graph, c.machine, c.costs));
  const Nanos got = *std::max_element(loads.begin(), loads.end());
  for (size_t cut = 0; cut <= c.graph.ops.size(); ++cut) {
    Strategy other = SingleDevice(c.graph, 0);
    for (size_t i = cut; i < c.graph.ops.size(); ++i) other.ops[i].devices[0] = 1;
    const std::vector<Nanos> its = c.Loads(other);
    EXPECT_GE(*std::max_element(its.begin(), its.end()), got) << cut;
  }
}

TEST(ExpertTest, OneWeirdTrickSplitsLinearsByOutputsAndTheRestBySample) {
  const Case c("alexnet", "p100_4x4");
  const Strategy strategy = ExpertStrategy(c.graph, c.machine);
  for (size_t i = 0; i < c.graph.ops.size(); ++i) {
    const PlanOp& op = c.graph.ops[i];
    const bool linear = std::holds_alternative<compute::Linear>(op.what);
    EXPECT_EQ(strategy.ops[i].degrees[linear ? 1 : 0], 16u) << op.name;
    EXPECT_EQ(strategy.ops[i].degrees[linear ? 0 : 1], 1u) << op.name;
  }
}

TEST(ExpertTest, LstmLayersLieWithinANodeAndSamplesAcrossNodes) {
  const Case c("gnmt", "p100_4x4", 10);
  const Strategy strategy = ExpertStrategy(c.graph, c.machine);
  std::set<uint32_t> slots;
  for (size_t i = 0; i < c.graph.ops.size(); ++i) {
    ASSERT_EQ(strategy.ops[i].devices.size(), 4u);
    for (uint32_t node = 0; node < 4; ++node) {
      const uint32_t device = strategy.ops[i].devices[node];
      EXPECT_EQ(c.machine.devices()[device].node, node);
      EXPECT_EQ(device % 4, strategy.ops[i].devices[0] % 4);
    }
    slots.insert(strategy.ops[i].devices[0]);
  }
  EXPECT_EQ(slots.size(), 4u);
}

}  // namespace
}  // namespace soapstone::planner
