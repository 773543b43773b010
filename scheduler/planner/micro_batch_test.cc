// Pipelines as the simulator runs them: micro-batches on stages, makespans told by hand.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "models/graph.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/simulator.h"

namespace soapstone::planner {
namespace {

constexpr Nanos kMs = 1'000'000;

// A sample takes a linear operator 1 ms forward and 2 backward, and the others a nanosecond, beside
// which transfers and applications of a few bytes are nothing either.
class EvenCosts : public CostModel {
 public:
  PartCost CostOf(const PlanOp& op, const models::Block& part, uint32_t /*kind*/) const override {
    if (!std::holds_alternative<compute::Linear>(op.what)) return {1, 1};
    return {.forward_ns = kMs * part[0].size(), .backward_ns = 2 * kMs * part[0].size()};
  }
  std::string sha256() const override { return "even"; }
};

models::Graph Linears(uint32_t layers) {
  models::GraphBuilder b("linears");
  models::TensorId x = b.Input("x", compute::DataType::kFloat32, {3});
  for (uint32_t i = 0; i < layers; ++i) {
    x = b.Apply(absl::StrCat("fc", i), compute::Linear{.outputs = 3, .bias = false}, {x});
  }
  b.Loss("loss", x);
  return *b.Build();
}

// The step in whole milliseconds of a chain of linear operators, `layers` of them a stage.
Nanos Milliseconds(uint32_t stages, uint32_t layers, int64_t batch, int64_t micro_batches,
                   uint32_t staleness = 0) {
  const models::Graph model = Linears(stages * layers);
  const OpGraph graph = *MakeOpGraph(model, {.batch = batch, .micro_batches = micro_batches});
  const Machine machine = FakeMachine({.devices_per_node = stages, .bytes_per_ns = 1e3});
  const EvenCosts costs;
  Strategy strategy = SingleDevice(graph, 0);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    strategy.ops[i].devices = {std::min(graph.ops[i].group / layers, stages - 1)};
  }
  strategy.staleness = staleness;
  Simulator simulator(&graph, &machine, &costs);
  CHECK(simulator.SetStrategy(strategy).ok());
  return (staleness > 0 ? simulator.IterationTime() : simulator.StepTime()) / kMs;
}

// m micro-batches of 8/m samples pass k stages, 3·8/m ms in each: (m + k − 1)·24/m.
TEST(MicroBatchTest, APipelineTakesItsStagesAndItsMicroBatchesLessOne) {
  EXPECT_EQ(Milliseconds(2, 1, 8, 1), 48);
  EXPECT_EQ(Milliseconds(2, 1, 8, 2), 36);
  EXPECT_EQ(Milliseconds(2, 1, 8, 4), 30);
  EXPECT_EQ(Milliseconds(2, 1, 8, 8), 27);
  EXPECT_EQ(Milliseconds(4, 1, 8, 1), 96);
  EXPECT_EQ(Milliseconds(4, 1, 8, 4), 42);
}

// On one device there is nothing to overlap: 3 ms a sample.
TEST(MicroBatchTest, OneStageTakesAsLongAsTheBatch) {
  for (const int64_t m : {1, 3, 8}) EXPECT_EQ(Milliseconds(1, 2, 8, m), 48) << m;
}

// 2 + 3 samples in two stages. Forward 2 on the first, 3 beside 2; the second: 2–4 forward of the
// small one, whose backward is ready at 4; the large one's forward at 5–8 or behind that, 8–11. Its
// backward of 6 ms on both ends the step: 8 + 3 + 6 + 6.
TEST(MicroBatchTest, UnevenMicroBatches) { EXPECT_EQ(Milliseconds(2, 1, 5, 2), 23); }

// A pipeline that does not wait at the end of a step is bound by its stage: 24 ms, once as many
// steps are under way as it has stages.
TEST(MicroBatchTest, StalenessFillsAPipeline) {
  EXPECT_EQ(Milliseconds(2, 1, 8, 1, 1), 24);
  EXPECT_EQ(Milliseconds(4, 1, 8, 1, 1), 48);
  EXPECT_EQ(Milliseconds(4, 1, 8, 1, 3), 24);
}

// Two devices that hold 3 × 3 weights exchange 36 bytes a step, whatever the micro-batches: the
// gradient goes to the first, the parameter comes back.
TEST(MicroBatchTest, ParametersAreSynchronizedOnceAStep) {
  for (const int64_t m : {1, 2, 4}) {
    const OpGraph graph = *MakeOpGraph(Linears(1), {.batch = 8, .micro_batches = m});
    const Machine machine = FakeMachine({});
    const EvenCosts costs;
    Simulator simulator(&graph, &machine, &costs);
    CHECK(simulator.SetStrategy(DataParallel(graph, 2)).ok());
    EXPECT_EQ(simulator.Explain().sync_bytes, 2 * 36) << m;
    EXPECT_EQ(simulator.Explain().transfer_bytes, 0) << m;
  }
}

}  // namespace
}  // namespace soapstone::planner
