// The step graph and where its values lie, with plans of kernels made up for the purpose.
#include "models/graph/memory_plan.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <set>

#include "gtest/gtest.h"
#include "models/graph/segments.h"
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

// The planner that was: each storage is held against all that were placed before it.
MemoryPlan PlanByPairs(const StepGraph& step) {
  struct Placed {
    size_t bytes = 0, offset = 0;
    uint32_t first = UINT32_MAX, last = 0;
  };
  std::vector<Placed> storages(step.values.size());
  for (const Value& value : step.values) {
    Placed& s = storages[value.storage];
    s.bytes = std::max(s.bytes, (value.bytes + 63) / 64 * 64);
    s.first = std::min(s.first, value.first);
    s.last = std::max(s.last, value.last);
  }
  std::vector<Placed*> order;
  for (Placed& s : storages) {
    if (s.bytes > 0) order.push_back(&s);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Placed* a, const Placed* b) { return a->bytes > b->bytes; });
  MemoryPlan plan;
  std::vector<const Placed*> placed;  // by offset
  for (Placed* s : order) {
    for (const Placed* other : placed) {
      if (other->last < s->first || s->last < other->first) continue;
      if (s->offset + s->bytes <= other->offset) break;
      s->offset = std::max(s->offset, other->offset + other->bytes);
    }
    plan.bytes = std::max(plan.bytes, s->offset + s->bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), s,
                         [](const Placed* a, const Placed* b) { return a->offset < b->offset; }),
        s);
  }
  for (const Value& value : step.values) plan.offsets.push_back(storages[value.storage].offset);
  return plan;
}

void ExpectSamePlan(const StepGraph& step) {
  const MemoryPlan wanted = PlanByPairs(step);
  const MemoryPlan plan = PlanMemory(step);
  ASSERT_EQ(plan.bytes, wanted.bytes);
  ASSERT_EQ(plan.offsets, wanted.offsets);
}

TEST(MemoryPlan, IsThatOfThePlannerByPairsOnRandomLives) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto nodes = static_cast<uint32_t>(1 + random() % 200);
    const uint64_t sizes = 1 + random() % 40;
    StepGraph step;
    step.nodes.resize(nodes);
    const size_t values = random() % 400;
    for (size_t i = 0; i < values; ++i) {
      const auto first = static_cast<uint32_t>(random() % nodes);
      // Short lives and long ones, as scratch and activations have; some have no bytes.
      const uint32_t most = random() % 2 == 0 ? 3 : nodes;
      const auto last =
          static_cast<uint32_t>(std::min<uint64_t>(nodes - 1, first + random() % most));
      const auto own = static_cast<ValueId>(i);
      const bool shares = i > 0 && random() % 8 == 0;
      step.values.push_back({.bytes = random() % sizes * 40,
                             .first = first,
                             .last = last,
                             .storage = shares ? step.values[random() % i].storage : own});
    }
    ExpectSamePlan(step);
  }
}

TEST(MemoryPlan, IsThatOfThePlannerByPairsOnModels) {
  for (const char* name :
       {"resnet50:tiny", "transformer_lm:tiny,layers=5", "gnmt:tiny", "nasnet_a:tiny"}) {
    const Graph graph = *BuildModel(name, ModelInput{});
    for (const bool in_place : {false, true}) {
      const Plans plans = PlansFor(graph, 3, true, in_place);
      ExpectSamePlan(BuildStepGraph(graph, 3, plans.pointers, {}));
      ExpectSamePlan(BuildStepGraph(graph, 3, plans.pointers, {.segments = CutPoints(graph)}));
    }
  }
}

// Ten thousand operators: with a step for each pair of values it took minutes.
TEST(MemoryPlan, OfManyLayersIsMadeInSeconds) {
  const Graph graph = *BuildModel("transformer_lm:tiny,layers=800", ModelInput{});
  const Plans plans = PlansFor(graph, 3, true, true);
  const auto began = std::chrono::steady_clock::now();
  const StepGraph step = BuildStepGraph(graph, 3, plans.pointers, {});
  const MemoryPlan plan = PlanMemory(step);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_GE(plan.bytes, plan.live_bytes_max);
  EXPECT_LT(took.count(), 5);  // 0.1 s where nothing else runs and nothing is checked
}

// All ways to cut, and a plan of each: what SmallestSegments was.
TEST(SmallestSegments, AreThoseOfTheSmallestPlan) {
  for (const char* name : {"resnet50:tiny", "transformer_lm:tiny,layers=9", "lenet5"}) {
    const Graph graph = *BuildModel(name, ModelInput{});
    const Plans plans = PlansFor(graph, 4, true);
    const size_t kept = PlanMemory(BuildStepGraph(graph, 4, plans.pointers, {})).bytes;
    const std::vector<uint32_t> cuts = CutPoints(graph);
    std::vector<size_t> before(graph.ops().size() + 1);
    for (size_t k = 0; k < graph.ops().size(); ++k) {
      before[k + 1] = before[k];
      for (const compute::Format& out : plans.plans[k].outputs) before[k + 1] += out.bytes;
    }
    std::vector<uint32_t> wanted;
    size_t least = kept;
    for (size_t count = 2; count <= cuts.size() + 1 && count <= 32; ++count) {
      std::vector<uint32_t> segments;
      for (size_t s = 1; s < count; ++s) {
        const size_t target = before.back() / count * s;
        const auto it = std::find_if(cuts.begin(), cuts.end(),
                                     [&](uint32_t cut) { return before[cut] >= target; });
        if (it == cuts.end() || (!segments.empty() && segments.back() >= *it)) continue;
        segments.push_back(*it);
      }
      const size_t bytes =
          PlanMemory(BuildStepGraph(graph, 4, plans.pointers, {.segments = segments})).bytes;
      if (bytes >= least) continue;
      least = bytes;
      wanted = segments;
    }
    EXPECT_EQ(SmallestSegments(graph, 4, plans.pointers, {}, kept), wanted) << name;
  }
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
