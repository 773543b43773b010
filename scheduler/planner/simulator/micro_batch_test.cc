// Pipelines as the simulator runs them: micro-batches on stages, makespans told by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "models/graph/graph.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/searchers/baselines.h"
#include "scheduler/planner/simulator/simulator.h"

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

struct Pipeline {
  std::vector<uint32_t> layers;  // linear operators, by stage
  int64_t batch = 8, micro_batches = 1;
  uint32_t staleness = 0;
  uint64_t memory_bytes = uint64_t{1} << 40;
};

struct Outcome {
  Nanos ms = 0;
  uint32_t in_flight = 0;
  int64_t overflow = 0;
  std::vector<int64_t> memory;  // by stage
};

// The step (under staleness the iteration) in whole milliseconds, a device a stage.
Outcome RunPipeline(const Pipeline& pipeline) {
  const auto stages = static_cast<uint32_t>(pipeline.layers.size());
  std::vector<uint32_t> device_of;  // by layer; the loss is on the last
  for (uint32_t k = 0; k < stages; ++k) device_of.resize(device_of.size() + pipeline.layers[k], k);
  const models::Graph model = Linears(static_cast<uint32_t>(device_of.size()));
  const OpGraph graph =
      *MakeOpGraph(model, {.batch = pipeline.batch, .micro_batches = pipeline.micro_batches});
  const Machine machine = FakeMachine(
      {.devices_per_node = stages, .bytes_per_ns = 1e3, .memory_bytes = pipeline.memory_bytes});
  const EvenCosts costs;
  Strategy strategy = SingleDevice(graph, 0);
  device_of.push_back(stages - 1);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    strategy.ops[i].devices = {device_of[graph.ops[i].group]};
  }
  strategy.staleness = pipeline.staleness;
  Simulator simulator(&graph, &machine, &costs);
  CHECK(simulator.SetStrategy(strategy).ok());
  const Nanos time = pipeline.staleness > 0 ? simulator.IterationTime() : simulator.StepTime();
  return {time / kMs, simulator.in_flight(), simulator.Overflow(),
          simulator.Explain().memory_bytes};
}

Nanos Milliseconds(const Pipeline& pipeline) { return RunPipeline(pipeline).ms; }

// Of stages of so many operators each.
Nanos Milliseconds(uint32_t stages, uint32_t layers, int64_t batch, int64_t micro_batches,
                   uint32_t staleness = 0) {
  return Milliseconds({.layers = std::vector<uint32_t>(stages, layers),
                       .batch = batch,
                       .micro_batches = micro_batches,
                       .staleness = staleness});
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

// Stages of l operators take l times as long, since a device finishes a micro-batch first: the last
// stage goes forward and back with each in turn, 3·l·8/m ms, from when the first one reaches it.
// Backward tasks may wait on stages before it, for one operator that has begun, but the last
// micro-batch's, behind which nothing is left to do, do not.
TEST(MicroBatchTest, StagesOfSeveralOperatorsTakeNoLonger) {
  EXPECT_EQ(Milliseconds(2, 4, 8, 8), (8 + 1) * 12);
  EXPECT_EQ(Milliseconds(2, 4, 8, 4), (4 + 1) * 24);
  EXPECT_EQ(Milliseconds(4, 2, 8, 8), (8 + 3) * 6);
  EXPECT_EQ(Milliseconds(3, 3, 12, 6), (6 + 2) * 18);
}

// Of 1 + 3 operators and micro-batches of a sample: the first takes 1 ms to the second stage, which
// takes 3 + 6 with each of four, and the last one's way back 2: 1 + 36 + 2. Of 3 + 1: the first
// stage always has something to do: the second micro-batch's forward while the second stage takes
// 1 + 2 with the first, and so on with each after it; 4·9.
TEST(MicroBatchTest, TheSlowestStageIsNeverIdleBetween) {
  EXPECT_EQ(Milliseconds({.layers = {1, 3}, .batch = 4, .micro_batches = 4}), 39);
  EXPECT_EQ(Milliseconds({.layers = {3, 1}, .batch = 4, .micro_batches = 4}), 36);
}

// On one device there is nothing to overlap: 3 ms a sample.
TEST(MicroBatchTest, OneStageTakesAsLongAsTheBatch) {
  for (const int64_t m : {1, 3, 8}) EXPECT_EQ(Milliseconds(1, 2, 8, m), 48) << m;
}

// 2 + 3 samples in two stages. The first goes forward with both, 0–2–5; the second forward and back
// with the small one, 2–4–8, and then with the large one, which waits for it: 8–11–17. The small
// one's way back on the first is 8–12, the large one's 17–23. With two operators a stage all times
// double: the small one's second backward operator is ready at 12 and the large one's first forward
// one at 10, but the small one goes first.
TEST(MicroBatchTest, UnevenMicroBatches) {
  EXPECT_EQ(Milliseconds(2, 1, 5, 2), 23);
  EXPECT_EQ(Milliseconds(2, 2, 5, 2), 46);
}

// A pipeline that does not wait at the end of a step is bound by its stage: 24 ms, once as many
// steps are under way as it has stages.
TEST(MicroBatchTest, StalenessFillsAPipeline) {
  EXPECT_EQ(Milliseconds(2, 1, 8, 1, 1), 24);
  EXPECT_EQ(Milliseconds(4, 1, 8, 1, 1), 48);
  EXPECT_EQ(Milliseconds(4, 1, 8, 1, 3), 24);
}

// So it is with stages of several operators, 96 ms and 48 a step, and with uneven ones, 3·3·8: the
// earliest step goes first. Two steps in four stages: each is on its way for 4·48.
TEST(MicroBatchTest, StalenessFillsStagesOfSeveralOperators) {
  EXPECT_EQ(Milliseconds(2, 4, 8, 1, 1), 96);
  EXPECT_EQ(Milliseconds(4, 2, 8, 1, 1), 96);
  EXPECT_EQ(Milliseconds(4, 2, 8, 1, 3), 48);
  EXPECT_EQ(Milliseconds(4, 2, 8, 1, 7), 48);
  EXPECT_EQ(Milliseconds({.layers = {3, 1}, .staleness = 1}), 72);
  EXPECT_EQ(Milliseconds({.layers = {1, 3, 2}, .staleness = 2}), 72);
}

// Steps in micro-batches fill each other's beginnings and ends.
TEST(MicroBatchTest, StalenessAndMicroBatches) {
  EXPECT_EQ(Milliseconds(2, 4, 8, 8, 1), 96);
  EXPECT_EQ(Milliseconds(4, 2, 8, 4, 1), 48);
}

// Where iterations do not end evenly, the mean over a window of them may be short of the load of
// the queue that is always busy, which none can be in the long run.
TEST(MicroBatchTest, IterationsTakeNoLessThanTheBusiestQueueIsBusy) {
  const OpGraph graph = *MakeOpGraph(*models::BuildModel("gnmt", models::ModelInput{}),
                                     {.batch = 128, .time_chunk = 8});
  const Machine machine = FakeMachine({.devices_per_node = 4, .bytes_per_ns = 10});
  const RooflineCost costs(machine.kinds(), {});
  Strategy strategy = ModelParallel(graph, machine, costs);
  Simulator simulator(&graph, &machine, &costs);
  for (const uint32_t s : {1, 3, 7}) {
    strategy.staleness = s;
    ASSERT_TRUE(simulator.SetStrategy(strategy).ok());
    const std::vector<Nanos> busy = simulator.Explain().busy_ns;
    EXPECT_GE(simulator.IterationTime(), *std::max_element(busy.begin(), busy.end())) << s;
  }
}

// Four stages of a sample each: a stage keeps its 3 × 3 weights and their gradients, 72 bytes, and
// of a micro-batch 12 that it makes and, but for the first, 12 that it receives; the last one the
// loss besides. A micro-batch is 4·1 + 4·2 ms on its way there and back. One at a time: 8·12. Two:
// the second leaves the last stage 3 ms behind the first, as that finishes first what it has begun,
// and each is followed by the next but one when it is back, so that two take 12: 4·12 + 3. Four
// hide each other's ways: (8 + 3)·3, with all eight under way as well.
TEST(MicroBatchTest, AsManyMicroBatchesAreUnderWayAsFit) {
  const Outcome all = RunPipeline({.layers = {1, 1, 1, 1}, .micro_batches = 8});
  EXPECT_EQ(all.in_flight, 8);
  EXPECT_EQ(all.memory[0], 72 + 8 * 12);
  EXPECT_EQ(all.memory[1], 72 + 8 * 24);
  EXPECT_EQ(all.ms, 33);
  const int64_t of_last = (all.memory[3] - 72) / 8;
  for (const auto& [in_flight, ms] :
       std::vector<std::pair<int, Nanos>>{{1, 96}, {2, 51}, {4, 33}}) {
    const Pipeline pipeline = {
        .layers = {1, 1, 1, 1},
        .micro_batches = 8,
        .memory_bytes = static_cast<uint64_t>(72 + (in_flight + 1) * of_last - 1)};
    const Outcome some = RunPipeline(pipeline);
    EXPECT_EQ(some.in_flight, in_flight);
    EXPECT_EQ(some.overflow, 0);
    EXPECT_EQ(some.memory[1], 72 + in_flight * 24);
    EXPECT_EQ(some.ms, ms) << in_flight;
  }
  // Not even one.
  const Outcome none = RunPipeline({.layers = {1, 1, 1, 1},
                                    .micro_batches = 8,
                                    .memory_bytes = static_cast<uint64_t>(72 + of_last - 1)});
  EXPECT_EQ(none.in_flight, 1);
  EXPECT_EQ(none.overflow, 1);
}

// Uneven micro-batches, of 2 and 3 samples: one at a time takes what the larger one does, and the
// step the one's way there and back, 2·3·2, behind the other's, 2·3·3.
TEST(MicroBatchTest, TheLargestMicroBatchesMustFit) {
  const Pipeline pipeline = {.layers = {1, 1}, .batch = 5, .micro_batches = 2};
  const Outcome both = RunPipeline(pipeline);
  Pipeline smaller = pipeline;
  smaller.memory_bytes =
      static_cast<uint64_t>(*std::max_element(both.memory.begin(), both.memory.end())) - 1;
  const Outcome one = RunPipeline(smaller);
  EXPECT_EQ(one.in_flight, 1);
  EXPECT_EQ(one.memory[0], 72 + 3 * 12);
  EXPECT_EQ(one.ms, 12 + 18);
}

// Under staleness each of the steps that are on their way keeps to it. One micro-batch of four
// samples is 4·3·4 ms on its way through four stages and back, so that a step's two, one after the
// other, take 96, and two steps that overlap 48 each. With both under way four fill the stages.
TEST(MicroBatchTest, MicroBatchesUnderWayUnderStaleness) {
  Pipeline pipeline = {.layers = {1, 1, 1, 1}, .batch = 8, .micro_batches = 2, .staleness = 1};
  const Outcome both = RunPipeline(pipeline);
  EXPECT_EQ(both.in_flight, 2);
  EXPECT_LT(both.ms, 48);
  pipeline.memory_bytes =
      static_cast<uint64_t>(*std::max_element(both.memory.begin(), both.memory.end())) - 1;
  const Outcome one = RunPipeline(pipeline);
  EXPECT_EQ(one.in_flight, 1);
  EXPECT_EQ(one.ms, 48);
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
