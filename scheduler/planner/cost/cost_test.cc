// Costs of parts: the work that they have, the roofline, and measured tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "compute/op_text.h"
#include "glog/logging.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/cost/measured_cost.h"
#include "scheduler/planner/cost/part_work.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "strategy/strategy.h"

namespace soapstone::planner {
namespace {

using testing::HasSubstr;

// 1 TFLOP/s, 100 GB/s, no launch: FLOPs in ps, bytes in 10 ps.
const std::vector<DeviceKind>& Kinds() {
  static const auto* const kinds =
      new std::vector<DeviceKind>{{"even", 1e12, 1e11, uint64_t{1} << 30, 0},
                                  {"half", 5e11, 5e10, uint64_t{1} << 30, 0},
                                  {"launches", 1e12, 1e11, uint64_t{1} << 30, 1000}};
  return *kinds;
}

OpGraph PlanOf(const std::string& model, int64_t batch, const models::ModelInput& input = {}) {
  return *MakeOpGraph(*models::BuildModel(model, input), {.batch = batch});
}

const PlanOp& OpNamed(const OpGraph& graph, const std::string& name) {
  for (const PlanOp& op : graph.ops) {
    if (op.name == name) return op;
  }
  LOG(FATAL) << name;
}

models::Block WholeOf(const PlanOp& op) {
  models::Block block;
  for (const models::IterationDim& dim : op.rule.dims) block.push_back({0, dim.extent});
  return block;
}

models::Block FirstHalf(const PlanOp& op, size_t dim) {
  models::Block block = WholeOf(op);
  block[dim].end /= 2;
  return block;
}

TEST(PartWorkTest, OfTheWholeIsTheOperatorsOwn) {
  const OpGraph graph = PlanOf("lenet5", 8);
  for (const PlanOp& op : graph.ops) {
    const PartWork work = WorkOf(op, WholeOf(op));
    EXPECT_EQ(work.cost, models::CostOf(op.what, op.shapes)) << op.name;
    EXPECT_EQ(work.op, compute::TextOf(op.what));
    EXPECT_EQ(work.inputs[0], op.shapes.inputs[0].shape);
  }
}

// Splits share the FLOPs out and nothing is lost, whichever dimension is split.
TEST(PartWorkTest, HalvesOfALinearHaveHalfTheFlops) {
  const OpGraph graph = PlanOf("mlp", 8);
  const PlanOp& op = graph.ops[1];
  ASSERT_EQ(op.rule.dims.size(), 3u);
  const int64_t whole = WorkOf(op, WholeOf(op)).cost.forward_flops;
  for (size_t d = 0; d < 3; ++d) {
    EXPECT_EQ(WorkOf(op, FirstHalf(op, d)).cost.forward_flops, whole / 2) << op.rule.dims[d].name;
  }
  // By sample each half reads all weights; by output half of them.
  EXPECT_GT(WorkOf(op, FirstHalf(op, 0)).cost.forward_bytes,
            WorkOf(op, FirstHalf(op, 1)).cost.forward_bytes);
}

TEST(PartWorkTest, APartOfALinearIsALinearThatCanBeLookedUp) {
  const OpGraph graph = PlanOf("mlp", 8);
  const PlanOp& op = graph.ops[1];
  const auto outputs = std::get<compute::Linear>(op.what).outputs;
  EXPECT_THAT(WorkOf(op, FirstHalf(op, 1)).op, HasSubstr(absl::StrCat("outputs=", outputs / 2)));
  EXPECT_EQ(WorkOf(op, FirstHalf(op, 0)).inputs[0][0], 4);
}

TEST(PartWorkTest, UnitsOfAnLstmHaveTheirShareAndNoOperatorOfTheirOwn) {
  const OpGraph graph = PlanOf("rnnlm:hidden=64", 8, {.steps = 10});
  const PlanOp& op = OpNamed(graph, "lstm.0");
  const PartWork whole = WorkOf(op, WholeOf(op));
  const PartWork half = WorkOf(op, FirstHalf(op, 2));
  EXPECT_EQ(half.op, "");
  EXPECT_EQ(half.cost.forward_flops, whole.cost.forward_flops / 2);
  EXPECT_LT(half.cost.forward_bytes, whole.cost.forward_bytes);
  EXPECT_EQ(half.forward_kernels, 10);
}

TEST(PartWorkTest, AnLstmReadsItsRecurrentWeightsAtEveryStep) {
  const OpGraph graph = PlanOf("rnnlm:hidden=64", 8, {.steps = 10});
  const PlanOp& op = OpNamed(graph, "lstm.0");
  const int64_t once = models::CostOf(op.what, op.shapes).forward_bytes;
  EXPECT_EQ(WorkOf(op, WholeOf(op)).cost.forward_bytes, once + 9 * 4 * 4 * 64 * 64);
}

TEST(RooflineTest, IsTheSlowerOfArithmeticAndMemoryAfterTheLaunches) {
  PartWork work = {.cost = {.forward_flops = 2'000'000,
                            .backward_flops = 4'000'000,
                            .forward_bytes = 100'000,
                            .backward_bytes = 900'000},
                   .forward_kernels = 3,
                   .backward_kernels = 4};
  EXPECT_EQ(RooflineOf(work, Kinds()[0], 1), (PartCost{2000, 9000}));
  EXPECT_EQ(RooflineOf(work, Kinds()[0], 0.25), (PartCost{8000, 16000}));
  EXPECT_EQ(RooflineOf(work, Kinds()[1], 1), (PartCost{4000, 18000}));
  EXPECT_EQ(RooflineOf(work, Kinds()[2], 1), (PartCost{5000, 13000}));
}

TEST(RooflineTest, AnotherNameForTheSameMemoryTakesNoTime) {
  const OpGraph graph = PlanOf("lenet5", 8);
  const RooflineCost costs(Kinds(), {});
  const PlanOp& flatten = OpNamed(graph, "flatten");
  EXPECT_EQ(costs.CostOf(flatten, WholeOf(flatten), 2), PartCost{});
}

TEST(RooflineTest, APartOfHalfTheWorkTakesMoreThanHalfTheTime) {
  const OpGraph graph = PlanOf("alexnet", 16);
  const RooflineCost costs(Kinds(), {});
  for (const PlanOp& op : graph.ops) {
    const PartCost whole = costs.CostOf(op, WholeOf(op), 2);
    const PartCost half = costs.CostOf(op, FirstHalf(op, 0), 2);
    EXPECT_LE(half.forward_ns, whole.forward_ns) << op.name;
    EXPECT_GE(2 * half.forward_ns, whole.forward_ns) << op.name;
  }
}

TEST(RooflineTest, HashesFollowWhatIsAnswered) {
  const RooflineCost plain(Kinds(), {});
  EXPECT_EQ(plain.sha256(), RooflineCost(Kinds(), {}).sha256());
  EXPECT_NE(plain.sha256(), RooflineCost(Kinds(), {{"linear", 0.5}}).sha256());
  EXPECT_NE(plain.sha256(), RooflineCost({Kinds()[0]}, {}).sha256());
}

// What a profile of the model at this batch would have written: each operator takes `slowness`
// times its roofline on kind 0.
wire::CostTable TableOf(const OpGraph& graph, double slowness) {
  wire::CostTable table;
  table.set_version(1);
  table.set_model(graph.model);
  table.set_model_sha256(graph.model_sha256);
  table.set_flops_per_second(1'000'000'000'000);
  table.set_bytes_per_second(100'000'000'000);
  for (const PlanOp& op : graph.ops) {
    const models::OpCost work = models::CostOf(op.what, op.shapes);
    const PartCost roofline = RooflineOf(WorkOf(op, WholeOf(op)), Kinds()[0], 1);
    wire::OperatorCost* cost = table.add_operators();
    cost->set_op(compute::TextOf(op.what));
    for (const compute::TensorSpec& input : op.shapes.inputs) {
      wire::TensorShape* shape = cost->add_inputs();
      for (const int64_t side : input.shape) shape->add_dims(side);
    }
    for (const int64_t side : op.shapes.outputs[0].shape) {
      if (cost->outputs().empty()) cost->add_outputs();
      cost->mutable_outputs(0)->add_dims(side);
    }
    cost->set_forward_ns(
        static_cast<uint64_t>(slowness * static_cast<double>(roofline.forward_ns)));
    cost->set_backward_ns(
        static_cast<uint64_t>(2 * slowness * static_cast<double>(roofline.backward_ns)));
    cost->set_forward_flops(static_cast<uint64_t>(work.forward_flops));
    cost->set_backward_flops(static_cast<uint64_t>(work.backward_flops));
    cost->set_forward_bytes(static_cast<uint64_t>(work.forward_bytes));
    cost->set_backward_bytes(static_cast<uint64_t>(work.backward_bytes));
  }
  return table;
}

absl::StatusOr<std::unique_ptr<MeasuredCost>> MeasuredFor(const OpGraph& graph,
                                                          const wire::CostTable& table) {
  return MeasuredCost::Make(table, "costs", graph.model, graph.model_sha256, Kinds());
}

TEST(MeasuredCostTest, AMeasuredShapeTakesWhatWasMeasured) {
  for (const char* model : {"lenet5", "rnnlm:hidden=64"}) {
    const OpGraph graph = PlanOf(model, 32);
    const wire::CostTable table = TableOf(graph, 3);
    const std::unique_ptr<MeasuredCost> costs = *MeasuredFor(graph, table);
    for (size_t k = 0; k < graph.ops.size(); ++k) {
      const PlanOp& op = graph.ops[k];
      const PartCost cost = costs->CostOf(op, WholeOf(op), 0);
      const auto forward = static_cast<double>(table.operators(static_cast<int>(k)).forward_ns());
      const auto backward = static_cast<double>(table.operators(static_cast<int>(k)).backward_ns());
      EXPECT_NEAR(static_cast<double>(cost.forward_ns), forward, 1) << op.name;
      EXPECT_NEAR(static_cast<double>(cost.backward_ns), backward, 1) << op.name;
    }
  }
}

TEST(MeasuredCostTest, AnotherShapeIsAsFarFromItsRooflineAsTheNearest) {
  const OpGraph graph = PlanOf("lenet5", 32);
  const std::unique_ptr<MeasuredCost> costs = *MeasuredFor(graph, TableOf(graph, 3));
  const RooflineCost roofline(Kinds(), {});
  const PlanOp& op = graph.ops[0];
  const PartCost part = costs->CostOf(op, FirstHalf(op, 1), 0);
  const PartCost least = roofline.CostOf(op, FirstHalf(op, 1), 0);
  EXPECT_NEAR(static_cast<double>(part.forward_ns), 3 * static_cast<double>(least.forward_ns), 2);
  EXPECT_NEAR(static_cast<double>(part.backward_ns), 6 * static_cast<double>(least.backward_ns), 4);
}

TEST(MeasuredCostTest, TheNearestIsOfTheSameSize) {
  const OpGraph graph = PlanOf("mlp", 32);
  wire::CostTable table = TableOf(graph, 2);
  // The large linear is slower than its roofline foretells, the small one is not.
  const PlanOp& linear = graph.ops[1];
  table.mutable_operators(1)->set_forward_ns(10 * table.operators(1).forward_ns());
  const std::unique_ptr<MeasuredCost> costs = *MeasuredFor(graph, table);
  const RooflineCost roofline(Kinds(), {});
  const PartCost part = costs->CostOf(linear, FirstHalf(linear, 0), 0);
  const PartCost least = roofline.CostOf(linear, FirstHalf(linear, 0), 0);
  EXPECT_NEAR(static_cast<double>(part.forward_ns) / static_cast<double>(least.forward_ns), 20,
              0.1);
}

TEST(MeasuredCostTest, ADeviceOfHalfTheRatesTakesTwiceAsLong) {
  const OpGraph graph = PlanOf("lenet5", 32);
  const std::unique_ptr<MeasuredCost> costs = *MeasuredFor(graph, TableOf(graph, 3));
  const PlanOp& op = graph.ops[0];
  EXPECT_NEAR(static_cast<double>(costs->CostOf(op, WholeOf(op), 1).forward_ns),
              2 * static_cast<double>(costs->CostOf(op, WholeOf(op), 0).forward_ns), 4);
}

TEST(MeasuredCostTest, RefusesTablesOfOtherModels) {
  const OpGraph graph = PlanOf("lenet5", 32);
  wire::CostTable table = TableOf(graph, 3);
  table.set_model("alexnet");
  table.set_model_sha256("feedfacefeedfacefeedface");
  const std::string error(MeasuredFor(graph, table).status().message());
  EXPECT_THAT(error, HasSubstr("costs: costs of alexnet (feedfacefeed), not of lenet5 ("));
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST(MeasuredCostTest, RefusesTablesWithoutARoofline) {
  const OpGraph graph = PlanOf("lenet5", 32);
  wire::CostTable table = TableOf(graph, 3);
  table.set_bytes_per_second(0);
  EXPECT_THAT(std::string(MeasuredFor(graph, table).status().message()),
              HasSubstr("must be from 1000000 to"));
}

// Numbers of which products and times would wrap round.
TEST(MeasuredCostTest, RefusesWhatNoMeasurementGives) {
  const OpGraph graph = PlanOf("lenet5", 32);
  const auto error = [&](void (*change)(wire::OperatorCost*)) {
    wire::CostTable table = TableOf(graph, 3);
    change(table.mutable_operators(0));
    return std::string(MeasuredFor(graph, table).status().message());
  };
  EXPECT_THAT(error([](wire::OperatorCost* o) { o->set_forward_flops(~uint64_t{0}); }),
              HasSubstr("above 2^53"));
  EXPECT_THAT(error([](wire::OperatorCost* o) { o->set_backward_ns(uint64_t{1} << 54); }),
              HasSubstr("above 2^53"));
  EXPECT_THAT(error([](wire::OperatorCost* o) {
                o->set_op("lstm(hidden=4)");
                o->clear_outputs();
                for (const int64_t dim : {int64_t{8}, int64_t{3}, INT64_MAX}) {
                  if (o->outputs().empty()) o->add_outputs();
                  o->mutable_outputs(0)->add_dims(dim);
                }
              }),
              HasSubstr("an output of impossible size"));
}

TEST(MeasuredCostTest, HashesFollowTheTable) {
  const OpGraph graph = PlanOf("lenet5", 32);
  EXPECT_EQ((*MeasuredFor(graph, TableOf(graph, 3)))->sha256(),
            (*MeasuredFor(graph, TableOf(graph, 3)))->sha256());
  EXPECT_NE((*MeasuredFor(graph, TableOf(graph, 3)))->sha256(),
            (*MeasuredFor(graph, TableOf(graph, 4)))->sha256());
}

}  // namespace
}  // namespace soapstone::planner
