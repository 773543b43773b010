// The step graph and where its values lie, with plans of kernels made up for the purpose.
#include "models/graph/memory_plan.h"

#include <set>

#include "gtest/gtest.h"
#include "models/graph/step_graph.h"
#include "models/zoo/zoo.h"

namespace soapstone::models {
namespace {

using compute::KernelPlan;

// Kernels that read all of their inputs and outputs in the backward pass, or none of them.
struct Plans {
  std::vector<KernelPlan> plans;
  std::vector<const KernelPlan*> pointers;
};

Plans PlansFor(const Graph& graph, int64_t samples, bool reads, bool in_place = false) {
  Plans made;
  for (const Op& op : graph.ops()) {
    KernelPlan plan;
    for (TensorId out : op.outputs) {
      plan.outputs.push_back(compute::PlainFormat(graph.tensor(out).spec(samples)));
    }
    plan.backward_reads_input.assign(op.inputs.size(), reads);
    plan.backward_reads_output.assign(op.outputs.size(), reads);
    plan.forward_in_place = plan.backward_in_place = in_place;
    made.plans.push_back(std::move(plan));
  }
  for (const KernelPlan& plan : made.plans) made.pointers.push_back(&plan);
  return made;
}

// No two values in different storages overlap in memory while both are alive.
void ExpectDisjoint(const StepGraph& step, const MemoryPlan& plan) {
  for (size_t a = 0; a < step.values.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const Value& x = step.values[a];
      const Value& y = step.values[b];
      if (x.storage == y.storage || x.bytes == 0 || y.bytes == 0) continue;
      if (x.last < y.first || y.last < x.first) continue;
      const bool apart = plan.offsets[a] + x.bytes <= plan.offsets[b] ||
                         plan.offsets[b] + y.bytes <= plan.offsets[a];
      ASSERT_TRUE(apart) << x.name << " and " << y.name;
    }
  }
}

TEST(StepGraph, ATensorReadTwiceHasItsGradientsSummed) {
  GraphBuilder b("m");
  TensorId x = b.Input("input", DataType::kFloat32, {4});
  x = b.Apply("fc", compute::Linear{.outputs = 4}, {x});
  const TensorId y = b.Apply("relu", compute::Activation{}, {x});
  b.Loss("loss", b.Apply("add", compute::Add{}, {x, y}));
  const Graph graph = *b.Build();
  const Plans plans = PlansFor(graph, 2, true);
  const StepGraph step = BuildStepGraph(graph, 2, plans.pointers, {});
  size_t sums = 0;
  for (const Node& node : step.nodes) {
    if (node.kind != NodeKind::kSum) continue;
    ++sums;
    EXPECT_EQ(node.op, 0u);
    EXPECT_EQ(node.output_grads.size(), 2u);
  }
  EXPECT_EQ(sums, 1u);
  // The sum belongs to the operator that made the tensor, and stands before its backward half.
  EXPECT_EQ(step.backward_end[0] - step.backward_begin[0], 2u);
}

TEST(StepGraph, NobodyWantsTheGradientOfTheInput) {
  const Graph graph = *BuildModel("lenet5", ModelInput{});
  const Plans plans = PlansFor(graph, 2, true);
  const StepGraph step = BuildStepGraph(graph, 2, plans.pointers, {});
  for (const Node& node : step.nodes) {
    if (node.kind == NodeKind::kBackward && node.op == 0) {
      EXPECT_EQ(node.input_grads[0], kNoValue);
    }
  }
}

TEST(StepGraph, EvaluationHasNoBackwardHalfAndNeedsLess) {
  const Graph graph = *BuildModel("lenet5", ModelInput{});
  const Plans plans = PlansFor(graph, 8, true);
  const StepGraph train = BuildStepGraph(graph, 8, plans.pointers, {});
  const StepGraph evaluate = BuildStepGraph(graph, 8, plans.pointers, {.training = false});
  EXPECT_EQ(evaluate.nodes.size(), graph.ops().size());
  EXPECT_LT(PlanMemory(evaluate).bytes, PlanMemory(train).bytes / 2);
}

TEST(MemoryPlan, ValuesAliveTogetherLieApart) {
  for (const std::string& name : ModelNames()) {
    const Graph graph = *BuildModel(name + ":tiny", ModelInput{});
    for (bool in_place : {false, true}) {
      const Plans plans = PlansFor(graph, 3, true, in_place);
      for (const auto& segments : {std::vector<uint32_t>{}, CutPoints(graph)}) {
        const StepGraph step = BuildStepGraph(graph, 3, plans.pointers, {.segments = segments});
        const MemoryPlan plan = PlanMemory(step);
        ExpectDisjoint(step, plan);
        EXPECT_GE(plan.bytes, plan.live_bytes_max) << name;
        EXPECT_LE(plan.bytes, plan.live_bytes_max * 5 / 4) << name;
      }
    }
  }
}

TEST(MemoryPlan, MutantThatEndsALifeEarlyIsFound) {
  const Graph graph = *BuildModel("lenet5", ModelInput{});
  const Plans plans = PlansFor(graph, 3, true);
  const StepGraph step = BuildStepGraph(graph, 3, plans.pointers, {});
  StepGraph mutant = step;
  for (Value& value : mutant.values) value.last = value.first;
  const MemoryPlan plan = PlanMemory(mutant);
  bool overlap = false;
  for (size_t a = 0; a < step.values.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const Value& x = step.values[a];
      const Value& y = step.values[b];
      overlap |= !(x.last < y.first || y.last < x.first) && x.bytes > 0 && y.bytes > 0 &&
                 plan.offsets[a] < plan.offsets[b] + y.bytes &&
                 plan.offsets[b] < plan.offsets[a] + x.bytes;
    }
  }
  EXPECT_TRUE(overlap);
}

TEST(StepGraph, WhatIsNotKeptIsComputedAgainBeforeItIsRead) {
  const Graph graph = *BuildModel("resnet50:tiny", ModelInput{});
  const Plans plans = PlansFor(graph, 4, true);
  const StepGraph keep = BuildStepGraph(graph, 4, plans.pointers, {});
  const StepGraph again = BuildStepGraph(graph, 4, plans.pointers, {.segments = CutPoints(graph)});
  EXPECT_GT(again.nodes.size(), keep.nodes.size());
  EXPECT_LT(PlanMemory(again).bytes, PlanMemory(keep).bytes);
  // Whatever a node reads was written by a node before it, or is an input.
  std::set<ValueId> written(again.inputs.begin(), again.inputs.end());
  written.insert(again.zeros.begin(), again.zeros.end());
  for (const Node& node : again.nodes) {
    const bool forward = node.kind == NodeKind::kForward;
    for (const auto* ids : {&node.inputs, &node.output_grads}) {
      for (ValueId id : *ids) EXPECT_TRUE(id == kNoValue || written.count(id)) << node.op;
    }
    if (!forward) {
      for (ValueId id : node.outputs) EXPECT_TRUE(id == kNoValue || written.count(id)) << node.op;
    }
    if (forward) written.insert(node.outputs.begin(), node.outputs.end());
    written.insert(node.input_grads.begin(), node.input_grads.end());
  }
}

TEST(CutPoints, AreWhereOneTensorIsAlive) {
  GraphBuilder b("m");
  TensorId x = b.Input("input", DataType::kFloat32, {4});
  x = b.Apply("fc0", compute::Linear{.outputs = 4}, {x});
  const TensorId y = b.Apply("fc1", compute::Linear{.outputs = 4}, {x});  // x and y alive after it
  x = b.Apply("add", compute::Add{}, {x, y});
  b.Loss("loss", x);
  EXPECT_EQ(CutPoints(*b.Build()), (std::vector<uint32_t>{1, 3}));
}

}  // namespace
}  // namespace soapstone::models
