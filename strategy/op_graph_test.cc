#include "strategy/op_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "models/graph/graph_text.h"
#include "models/zoo/zoo.h"

namespace soapstone::planner {
namespace {

using models::Block;
using models::Range;

models::Graph Model(const std::string& name, const models::ModelInput& input = {}) {
  return *models::BuildModel(name, input);
}

OpGraph Plan(const models::Graph& graph, int64_t time_chunk, int64_t batch = 4) {
  return *MakeOpGraph(graph, {.batch = batch, .time_chunk = time_chunk});
}

const PlanOp& Named(const OpGraph& plan, const std::string& name) {
  const auto found = std::find_if(plan.ops.begin(), plan.ops.end(),
                                  [&](const PlanOp& op) { return op.name == name; });
  CHECK(found != plan.ops.end()) << name;
  return *found;
}

std::vector<std::string> Sources(const OpGraph& plan, const PlanOp& op, uint32_t input) {
  std::vector<std::string> names;
  for (const uint32_t e : op.in) {
    if (plan.edges[e].input == input) names.push_back(plan.ops[plan.edges[e].from].name);
  }
  return names;
}

// What of the consumer's input an edge brings.
Block Brought(const OpGraph& plan, const PlanEdge& edge) {
  const std::vector<int64_t>& from = plan.ops[edge.from].shapes.outputs[edge.output].shape;
  const std::vector<int64_t>& to = plan.ops[edge.to].shapes.inputs[edge.input].shape;
  EXPECT_EQ(from.size(), to.size());
  EXPECT_EQ(edge.offset.size(), to.size());
  Block block;
  for (size_t i = 0; i < to.size(); ++i) {
    block.push_back({std::clamp<int64_t>(edge.offset[i], 0, to[i]),
                     std::clamp<int64_t>(edge.offset[i] + from[i], 0, to[i])});
  }
  return block;
}

int64_t Volume(const Block& block) {
  int64_t volume = 1;
  for (const Range& range : block) volume *= range.size();
  return volume;
}

bool Disjoint(const Block& a, const Block& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].end <= b[i].begin || b[i].end <= a[i].begin) return true;
  }
  return false;
}

// The edges of every input bring each of its elements once; or it has none, being of the batch.
void CheckInputsAreCovered(const models::Graph& graph, const OpGraph& plan) {
  std::vector<bool> of_batch(graph.tensors().size(), false);
  for (const models::TensorId in : graph.inputs()) of_batch[models::Index(in)] = true;
  for (const PlanOp& op : plan.ops) {
    std::map<uint32_t, std::vector<Block>> brought;
    for (const uint32_t e : op.in) {
      ASSERT_LT(plan.edges[e].from, plan.edges[e].to);
      brought[plan.edges[e].input].push_back(Brought(plan, plan.edges[e]));
    }
    const models::Op& model_op = graph.ops()[op.model_op];
    for (uint32_t i = 0; i < op.shapes.inputs.size(); ++i) {
      const std::vector<Block>& blocks = brought[i];
      int64_t volume = 0;
      for (size_t a = 0; a < blocks.size(); ++a) {
        ASSERT_GT(Volume(blocks[a]), 0) << op.name;
        volume += Volume(blocks[a]);
        for (size_t b = 0; b < a; ++b) ASSERT_TRUE(Disjoint(blocks[a], blocks[b])) << op.name;
      }
      // The state before the first step is zeros.
      const bool none =
          i < model_op.inputs.size() ? of_batch[models::Index(model_op.inputs[i])] : blocks.empty();
      ASSERT_EQ(volume, none ? 0 : op.shapes.inputs[i].elements()) << op.name << " input " << i;
    }
  }
}

void CheckTotals(const models::Graph& graph, const OpGraph& plan) {
  int64_t flops = 0;
  int64_t expected = 0;
  for (const PlanOp& op : plan.ops) {
    const models::OpCost cost = models::CostOf(op.what, op.shapes);
    flops += cost.forward_flops + cost.backward_flops;
  }
  for (const models::Op& op : graph.ops()) {
    const models::OpCost cost = models::CostOf(op.what, graph.ShapesOf(op, plan.batch));
    expected += cost.forward_flops + cost.backward_flops;
  }
  EXPECT_EQ(flops, expected);
  uint64_t parameters = 0;
  for (const PlanParam& param : plan.params) {
    uint64_t elements = 1;
    for (const int64_t side : param.shape) elements *= static_cast<uint64_t>(side);
    if (param.trained) parameters += elements;
    EXPECT_FALSE(param.ops.empty()) << param.name;
  }
  EXPECT_EQ(parameters, graph.parameter_count());
}

class EveryModelTest : public testing::TestWithParam<std::string> {};

TEST_P(EveryModelTest, ReadsAllOfEveryInputAndComputesWhatTheModelDoes) {
  const models::Graph graph = Model(GetParam());
  for (const int64_t chunk : {0, 1, 3, 8}) {
    const OpGraph plan = Plan(graph, chunk);
    CheckInputsAreCovered(graph, plan);
    CheckTotals(graph, plan);
    EXPECT_EQ(plan.model_sha256, models::HashOf(graph));
  }
}

TEST_P(EveryModelTest, MicroBatchesReadAndComputeWhatTheModelDoes) {
  const models::Graph graph = Model(GetParam());
  for (const int64_t chunk : {0, 3}) {
    const OpGraph plan = *MakeOpGraph(
        graph, {.batch = 7, .time_chunk = chunk, .micro_batches = 3});  // 2, 2 and 3 samples
    CheckInputsAreCovered(graph, plan);
    CheckTotals(graph, plan);
  }
}

// One of a graph's micro-batches, but for names and numbers.
void ExpectIsMicroBatch(const OpGraph& whole, uint32_t micro_batch, const OpGraph& expected) {
  const size_t first = micro_batch == 0 ? 0 : expected.ops.size() * micro_batch;
  std::vector<uint32_t> edges;
  for (size_t k = 0; k < expected.ops.size(); ++k) {
    const PlanOp& op = whole.ops[first + k];
    ASSERT_EQ(op.micro_batch, micro_batch);
    EXPECT_EQ(op.name, absl::StrCat(expected.ops[k].name, "#", micro_batch));
    EXPECT_EQ(op.what, expected.ops[k].what);
    EXPECT_EQ(op.rule, expected.ops[k].rule);
    EXPECT_EQ(op.shapes.inputs, expected.ops[k].shapes.inputs);
    EXPECT_EQ(op.shapes.outputs, expected.ops[k].shapes.outputs);
    EXPECT_EQ(op.params, expected.ops[k].params);
    EXPECT_EQ(op.group, expected.ops[k].group);
    ASSERT_EQ(op.in.size(), expected.ops[k].in.size());
    for (size_t i = 0; i < op.in.size(); ++i) {
      PlanEdge edge = whole.edges[op.in[i]];
      edge.from -= static_cast<uint32_t>(first);
      edge.to -= static_cast<uint32_t>(first);
      EXPECT_EQ(edge, expected.edges[expected.ops[k].in[i]]);
    }
  }
}

TEST_P(EveryModelTest, EachMicroBatchIsTheGraphOfItsSamples) {
  const models::Graph graph = Model(GetParam());
  const int64_t samples[] = {1, 2, 2};
  const OpGraph plan = *MakeOpGraph(graph, {.batch = 5, .time_chunk = 4, .micro_batches = 3});
  EXPECT_EQ(plan.batch, 5);
  for (uint32_t i = 0; i < 3; ++i) ExpectIsMicroBatch(plan, i, Plan(graph, 4, samples[i]));
}

std::vector<std::string> EveryModel() {
  std::vector<std::string> names;
  for (const std::string& name : models::ModelNames()) {
    const bool long_sequences = name == "transformer_lm" || name == "bert_base";
    names.push_back(long_sequences ? absl::StrCat(name, ":tiny") : name);
  }
  return names;
}
INSTANTIATE_TEST_SUITE_P(Zoo, EveryModelTest, testing::ValuesIn(EveryModel()),
                         [](const auto& info) {
                           return info.param.substr(0, info.param.find(':'));
                         });

TEST(OpGraphTest, WithoutChunksOperatorsAreTheModels) {
  const models::Graph graph = Model("inception_v3");
  const OpGraph plan = Plan(graph, 0, 6);
  ASSERT_EQ(plan.ops.size(), graph.ops().size());
  for (size_t k = 0; k < plan.ops.size(); ++k) {
    EXPECT_EQ(plan.ops[k].name, graph.ops()[k].name);
    EXPECT_EQ(plan.ops[k].shapes.inputs, graph.ShapesOf(graph.ops()[k], 6).inputs);
    EXPECT_EQ(plan.groups[plan.ops[k].group], std::vector<uint32_t>{static_cast<uint32_t>(k)});
  }
}

TEST(OpGraphTest, MicroBatchesShareParametersAndGroups) {
  const models::Graph graph = Model("rnnlm");
  const OpGraph plan = *MakeOpGraph(graph, {.batch = 4, .time_chunk = 16, .micro_batches = 2});
  const PlanOp& first = Named(plan, "lstm.0@0#0");
  const PlanOp& last = Named(plan, "lstm.0@2#1");
  EXPECT_THAT(Sources(plan, last, 1), testing::ElementsAre("lstm.0@1#1"));
  EXPECT_EQ(first.params, last.params);
  EXPECT_EQ(plan.groups[first.group].size(), 6u);
  EXPECT_EQ(plan.params[first.params[0]].ops, plan.groups[first.group]);
  EXPECT_EQ(plan.groups.size(), graph.ops().size());
  EXPECT_EQ(NameOfGroup(plan, first.group), "lstm.0");
  EXPECT_EQ(NameOfGroup(Plan(graph, 16), first.group), "lstm.0");
  EXPECT_EQ(NameOfGroup(Plan(graph, 0), first.group), "lstm.0");
}

TEST(OpGraphTest, ChunksOfAnLstmHandTheirStateOn) {
  const OpGraph plan = Plan(Model("rnnlm"), 16);
  const PlanOp& first = Named(plan, "lstm.0@0");
  const PlanOp& last = Named(plan, "lstm.0@2");
  EXPECT_EQ(first.shapes.inputs[0].shape, (std::vector<int64_t>{4, 16, 2048}));
  EXPECT_EQ(last.shapes.inputs[0].shape, (std::vector<int64_t>{4, 8, 2048}));
  EXPECT_TRUE(std::get<compute::Lstm>(first.what).state);
  EXPECT_THAT(Sources(plan, first, 1), testing::IsEmpty());
  EXPECT_THAT(Sources(plan, last, 0), testing::ElementsAre("embedding@2"));
  EXPECT_THAT(Sources(plan, last, 1), testing::ElementsAre("lstm.0@1"));
  EXPECT_THAT(Sources(plan, last, 2), testing::ElementsAre("lstm.0@1"));
  EXPECT_EQ(first.params, last.params);
  EXPECT_EQ(plan.groups[first.group].size(), 3u);
  EXPECT_EQ(plan.params[first.params[0]].ops, plan.groups[first.group]);
}

TEST(OpGraphTest, AReversedLstmBeginsWithTheLastChunk) {
  models::GraphBuilder b("reverse");
  models::TensorId x = b.Input("x", compute::DataType::kFloat32, {5, 3});
  x = b.Apply("lstm", compute::Lstm{.hidden = 4, .reverse = true}, {x});
  b.Loss("loss", b.Apply("fc", compute::Linear{.outputs = 2}, {x}));
  const OpGraph plan = Plan(*b.Build(), 2);
  EXPECT_EQ(plan.ops[0].name, "lstm@2");
  EXPECT_EQ(plan.ops[0].shapes.inputs[0].shape[1], 1);
  EXPECT_THAT(Sources(plan, Named(plan, "lstm@0"), 1), testing::ElementsAre("lstm@1"));
  EXPECT_THAT(Sources(plan, Named(plan, "fc@0"), 0), testing::ElementsAre("lstm@0"));
}

TEST(OpGraphTest, AGivenStateGoesToTheFirstChunkAndTheFinalOneComesFromTheLast) {
  models::GraphBuilder b("state");
  const models::TensorId x = b.Input("x", compute::DataType::kFloat32, {4, 3});
  const models::TensorId h = b.Input("h", compute::DataType::kFloat32, {4});
  const models::TensorId h0 = b.Apply("h0", compute::Linear{.outputs = 4}, {h});
  const std::vector<models::TensorId> y =
      b.ApplyAll("lstm", compute::Lstm{.hidden = 4, .state = true}, {x, h0, h0}, 3);
  b.Loss("loss", b.Apply("fc", compute::Linear{.outputs = 2}, {y[1]}));
  const models::Graph graph = *b.Build();
  const OpGraph plan = Plan(graph, 2);
  EXPECT_THAT(Sources(plan, Named(plan, "lstm@0"), 1), testing::ElementsAre("h0"));
  EXPECT_THAT(Sources(plan, Named(plan, "fc"), 0), testing::ElementsAre("lstm@1"));
  CheckInputsAreCovered(graph, plan);
}

TEST(OpGraphTest, AttentionTakesItsQueriesInChunksAndAllKeys) {
  const OpGraph plan = Plan(Model("gnmt"), 20);
  const PlanOp& attention = Named(plan, "attention@1");
  EXPECT_THAT(Sources(plan, attention, 0), testing::ElementsAre("attention.query@1"));
  EXPECT_THAT(Sources(plan, attention, 1),
              testing::ElementsAre("attention.key@0", "attention.key@1"));
  EXPECT_THAT(Sources(plan, Named(plan, "decoder.join@1"), 1), testing::ElementsAre("attention@1"));
}

TEST(OpGraphTest, WhatNeedsTheWholeSequenceStaysWhole) {
  const OpGraph plan = Plan(Model("rnntc"), 10);
  EXPECT_THAT(Sources(plan, Named(plan, "last"), 0),
              testing::ElementsAre("lstm.3@0", "lstm.3@1", "lstm.3@2", "lstm.3@3"));
  const OpGraph causal = Plan(Model("transformer_lm:tiny"), 4);
  size_t whole = 0;
  for (const PlanOp& op : causal.ops) {
    if (!std::holds_alternative<compute::MultiHeadAttention>(op.what)) continue;
    ++whole;
    EXPECT_EQ(op.name.find('@'), std::string::npos);
  }
  EXPECT_GT(whole, 0u);
}

TEST(OpGraphTest, ImagesHaveNoTime) {
  const models::Graph graph = Model("alexnet");
  EXPECT_EQ(Plan(graph, 2).ops.size(), graph.ops().size());
}

TEST(OpGraphTest, TwoStepsOfALanguageModelAreTwoOperatorsALayer) {
  const OpGraph plan = Plan(Model("rnnlm", {.steps = 2}), 1);
  EXPECT_EQ(plan.ops.size(), 2u * 5);
}

TEST(OpGraphTest, GradientsFlowWhereParametersLieBefore) {
  const OpGraph plan = Plan(Model("rnnlm"), 20);
  for (const PlanEdge& edge : plan.edges) EXPECT_TRUE(edge.gradient);
  models::GraphBuilder b("pool_first");
  models::TensorId x = b.Input("x", compute::DataType::kFloat32, {1, 4, 4});
  x = b.Apply("pool", compute::Pool{.window = compute::Window::Square(2, 2)}, {x});
  b.Loss("loss", b.Apply("fc", compute::Linear{.outputs = 2}, {b.Flatten("flat", x)}));
  const OpGraph pool = Plan(*b.Build(), 0);
  ASSERT_EQ(pool.edges.size(), 3u);
  EXPECT_FALSE(pool.edges[0].gradient);
  EXPECT_FALSE(pool.edges[1].gradient);
  EXPECT_TRUE(pool.edges[2].gradient);
}

TEST(OpGraphTest, RunningStatisticsAreNotTrained) {
  const OpGraph plan = Plan(Model("resnet50:tiny"), 0);
  size_t kept = 0;
  for (const PlanParam& param : plan.params) kept += param.trained ? 0 : 1;
  EXPECT_GT(kept, 0u);
}

TEST(OpGraphTest, RefusesWhatIsNoBatchAndNoChunk) {
  const models::Graph graph = Model("mlp");
  EXPECT_EQ(MakeOpGraph(graph, {.batch = 0}).status().message(),
            "the batch must be at least 1, not 0");
  EXPECT_EQ(MakeOpGraph(graph, {.time_chunk = -1}).status().message(),
            "a chunk of time cannot have -1 steps; 0: whole");
  EXPECT_EQ(MakeOpGraph(graph, {.batch = 4, .micro_batches = 5}).status().message(),
            "a batch of 4 cannot be cut into 5 micro-batches");
  EXPECT_EQ(MakeOpGraph(graph, {.batch = 4, .micro_batches = 0}).status().message(),
            "a batch of 4 cannot be cut into 0 micro-batches");
}

}  // namespace
}  // namespace soapstone::planner
