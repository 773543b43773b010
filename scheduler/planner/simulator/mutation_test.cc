// Random walks over the six networks of the FlexFlow paper on 2 to 64 devices, and over two of them
// in micro-batches: what a chain of proposals leaves behind has the step time, to the bit, that a
// new simulator finds for the same strategy. Changes of who keeps which parameters are among them
// where servers synchronize. A sample here; SOAPSTONE_MUTATIONS sets how many
// proposals all walks make together (./check --long: a million).
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "scheduler/planner/search/proposals.h"
#include "scheduler/planner/simulator/simulator.h"
#include "strategy/machine_text.h"

namespace soapstone::planner {
namespace {

constexpr int kWalks = 30;  // of six networks on five numbers of devices; others are besides
constexpr int kWays = 3;    // to synchronize

// Of one walk and way, so that all networks' come to what is asked for, at least.
int MutationsOfEach() {
  const char* set = std::getenv("SOAPSTONE_MUTATIONS");
  const int all = set == nullptr ? 30 * kWalks : std::atoi(set);
  return (all + kWalks * kWays - 1) / (kWalks * kWays);
}

// Nodes of up to four devices, and a server each.
Machine NodesOfFour(uint32_t devices, double memory_gib) {
  const std::string text = absl::StrCat(R"(
    name: "nodes"
    kinds { name: "gpu" tflops: 6.4 memory_gbytes_per_s: 550 memory_gib: )",
                                        memory_gib, R"( launch_us: 5 }
    nodes {
      name: "node" kind: "gpu" devices: )",
                                        std::min(devices, 4u), " count: ", (devices + 3) / 4, R"(
      mesh { gbytes_per_s: 20 latency_us: 2 }
      host { gbytes_per_s: 12 latency_us: 5 }
      nics { count: 1 connection { gbytes_per_s: 12.5 latency_us: 3 } direct: true }
      servers: 1 server_apply_gbytes_per_s: 10
    })");
  absl::StatusOr<Machine> machine = ParseMachine(text, "test");
  CHECK(machine.ok()) << machine.status();
  return *std::move(machine);
}

OpGraph GraphOf(const std::string& model, uint32_t devices, int64_t micro_batches) {
  const bool image = model == "alexnet" || model == "resnet101" || model == "inception_v3";
  models::ModelInput input;
  if (image) {
    const int64_t side = model == "inception_v3" ? 299 : 224;
    input = {.image = {3, side, side}, .classes = 1000};
  }
  const auto graph = models::BuildModel(model, input);
  CHECK(graph.ok()) << graph.status();
  auto plan = MakeOpGraph(*graph, {.batch = int64_t{64} * devices,
                                   .time_chunk = image ? 0 : 8,
                                   .micro_batches = micro_batches});
  CHECK(plan.ok()) << plan.status();
  return *std::move(plan);
}

// model, devices, micro-batches, of which so many are under way where data parallelism runs
using Walk = std::tuple<std::string, uint32_t, int64_t, uint32_t>;

// Of devices whose memory lets data parallelism have so many micro-batches under way, and other
// strategies more or fewer.
Machine MachineFor(const OpGraph& graph, uint32_t devices, uint32_t in_flight) {
  for (double memory_gib = 16;; memory_gib *= 0.99) {
    Machine machine = NodesOfFour(devices, memory_gib);
    const RooflineCost costs(machine.kinds(), {});
    Simulator simulator(&graph, &machine, &costs);
    CHECK(simulator.SetStrategy(DataParallel(graph, devices)).ok());
    CHECK_GE(simulator.in_flight(), in_flight);
    if (simulator.in_flight() == in_flight) return machine;
  }
}

class MutationTest : public testing::TestWithParam<Walk> {};

TEST_P(MutationTest, ChainsHaveTheTimesOfNewSimulators) {
  const auto& [model, devices, micro_batches, under_way] = GetParam();
  const OpGraph graph = GraphOf(model, devices, micro_batches);
  const Machine machine = MachineFor(graph, devices, under_way);
  const RooflineCost costs(machine.kinds(), {});
  const Space space(&graph, &machine);
  ProposalGenerator moves(&space);
  RandomSource random(7, devices);
  Simulator chain(&graph, &machine, &costs), fresh(&graph, &machine, &costs);
  Strategy seed = DataParallel(graph, devices);
  std::set<uint32_t> in_flight;
  for (const Synchronization way :
       {Synchronization::kOwner, Synchronization::kRing, Synchronization::kServers}) {
    seed.synchronization = way;
    ASSERT_TRUE(chain.SetStrategy(seed).ok());
    Nanos now = chain.StepTime();
    for (int i = 0; i < MutationsOfEach();) {
      const auto changes = moves.Draw(chain, &random);
      if (changes.empty() && moves.servers().empty()) continue;
      ++i;
      chain.set_early_rejection(random.Below(4) > 0);
      const Nanos cutoff = random.Below(2) == 0 ? kNever - 1 : now + now / 100;
      const Nanos time = chain.Propose(changes, cutoff, moves.servers());
      // The proposed strategy itself, and then what is kept.
      const Strategy proposed = chain.strategy();
      ASSERT_TRUE(fresh.SetStrategy(proposed).ok());
      if (time != kNever) {
        ASSERT_EQ(time, fresh.StepTime()) << i;
      } else if (fresh.Overflow() == 0) {
        ASSERT_GT(fresh.StepTime(), cutoff) << i;
      }
      if (time == kNever || random.Below(3) == 0) {
        chain.Reject();
      } else {
        chain.Accept();
        now = time;
      }
      ASSERT_EQ(chain.Simulate(), now) << i;
      in_flight.insert(chain.in_flight());
    }
  }
  EXPECT_EQ(*in_flight.begin() < micro_batches, under_way < micro_batches);
}

std::string NameOf(const testing::TestParamInfo<Walk>& info) {
  return absl::StrCat(std::get<0>(info.param), "At", std::get<1>(info.param), "In",
                      std::get<2>(info.param), "Of", std::get<3>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Networks, MutationTest,
                         testing::Combine(testing::Values("alexnet", "resnet101", "inception_v3",
                                                          "rnntc", "rnnlm", "gnmt"),
                                          testing::Values(2u, 4u, 8u, 16u, 64u), testing::Values(1),
                                          testing::Values(1u)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(MicroBatches, MutationTest,
                         testing::Combine(testing::Values("alexnet", "rnnlm"),
                                          testing::Values(2u, 8u), testing::Values(4),
                                          testing::Values(4u, 2u)),
                         NameOf);

}  // namespace
}  // namespace soapstone::planner
