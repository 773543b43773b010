#include "strategy/shared_moments.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "strategy/regions.h"

namespace soapstone::planner {
namespace {

using models::DimKind;

// Of batch norm, and of its moments: all dimensions but the channels.
bool IsCounted(const models::IterationDim& dim) { return dim.kind != DimKind::kParameter; }

bool SharesMoments(const PlanOp& op, const OpConfig& config) {
  for (size_t d = 0; d < op.rule.dims.size(); ++d) {
    if (op.rule.dims[d].exchanges_statistics && config.degrees[d] > 1) return true;
  }
  return false;
}

// By row: the elements of a channel that its part has.
std::vector<int64_t> CountsOf(const PlanOp& op, const OpConfig& config) {
  std::vector<int64_t> counts;
  for (uint32_t part = 0; part < config.devices.size(); ++part) {
    const models::Block block = PartBlock(op, config, part);
    int64_t count = 1;
    for (size_t d = 0; d < block.size(); ++d) {
      if (IsCounted(op.rule.dims[d])) count *= block[d].size();
    }
    const auto row = static_cast<size_t>(RowOfPart(op, config, part));
    if (row >= counts.size()) counts.resize(row + 1);
    counts[row] = count;
  }
  return counts;
}

void AddEdge(PlanEdge edge, OpGraph* graph) {
  const auto id = static_cast<uint32_t>(graph->edges.size());
  graph->ops[edge.from].out.push_back(id);
  graph->ops[edge.to].in.push_back(id);
  graph->edges.push_back(std::move(edge));
}

// An operator behind all others, with the parts that batch norm k has.
uint32_t AddOp(uint32_t k, const char* suffix, compute::Operator what, OpConfig config,
               LoweredStrategy* to) {
  const PlanOp& norm = to->graph.ops[k];
  PlanOp op = {.name = absl::StrCat(norm.name, suffix),
               .what = std::move(what),
               .model_op = norm.model_op,
               .group = norm.group,
               .micro_batch = norm.micro_batch,
               .first_sample = norm.first_sample};
  absl::StatusOr<models::OpShapes> shapes = models::InferShapes(op.what, {norm.shapes.inputs[0]});
  CHECK(shapes.ok()) << shapes.status();
  op.shapes = *std::move(shapes);
  op.rule = models::PartitionOf(op.what, op.shapes);
  to->graph.ops.push_back(std::move(op));
  to->strategy.ops.push_back(std::move(config));
  return static_cast<uint32_t>(to->graph.ops.size()) - 1;
}

// Whether a part of what batch norm k reads comes from another device.
bool ComesFromOthers(uint32_t k, const LoweredStrategy& of) {
  const OpConfig& to = of.strategy.ops[k];
  for (const uint32_t e : of.graph.ops[k].in) {
    const PlanEdge& edge = of.graph.edges[e];
    const OpConfig& from = of.strategy.ops[edge.from];
    for (const Meeting& met : MeetingsOf(of.graph, edge, from, to)) {
      if (from.devices[met.producer] != to.devices[met.consumer]) return true;
    }
  }
  return false;
}

// The parts' input under a name of its own, which moments and norm read on the part's device: so
// what comes from others comes once, and its gradient goes back as one. It takes the edges of batch
// norm k, as they are.
uint32_t AddName(uint32_t k, LoweredStrategy* to) {
  OpGraph& graph = to->graph;
  const OpConfig& norm = to->strategy.ops[k];
  const std::vector<int64_t>& shape = graph.ops[k].shapes.inputs[0].shape;
  OpConfig config = {.devices = norm.devices};
  for (size_t d = 0; d < norm.degrees.size(); ++d) {
    if (d > 0 && shape[d] == 1) continue;  // a reshape has no dimension for it
    config.degrees.push_back(norm.degrees[d]);
    if (!norm.cuts.empty()) config.cuts.push_back(norm.cuts[d]);
  }
  const uint32_t name =
      AddOp(k, ".input", compute::Reshape{{shape.begin() + 1, shape.end()}}, std::move(config), to);
  graph.ops[name].in = std::exchange(graph.ops[k].in, {});
  graph.ops[name].feeds = std::exchange(graph.ops[k].feeds, {});
  bool gradient = false;
  for (const uint32_t e : graph.ops[name].in) {
    graph.edges[e].to = name;
    gradient = gradient || graph.edges[e].gradient;
  }
  AddEdge({.from = name,
           .to = k,
           .offset = std::vector<int64_t>(shape.size(), 0),
           .gradient = gradient},
          &graph);
  return name;
}

// Makes of a batch norm its second half.
void NormalizeByMoments(const compute::BatchNorm& whole, std::vector<int64_t> counts,
                        const models::OpShapes& moments, PlanOp* op) {
  op->what = compute::NormalizeByMoments{.epsilon = whole.epsilon,
                                         .momentum = whole.momentum,
                                         .relu = whole.relu,
                                         .samples = op->shapes.inputs[0].shape[0],
                                         .counts = std::move(counts)};
  absl::StatusOr<models::OpShapes> shapes =
      models::InferShapes(op->what, {op->shapes.inputs[0], moments.outputs[0]});
  CHECK(shapes.ok()) << shapes.status();
  op->shapes = *std::move(shapes);
  op->rule = models::PartitionOf(op->what, op->shapes);
}

void SplitNorm(uint32_t k, LoweredStrategy* to) {
  OpGraph& graph = to->graph;
  const auto* norm = std::get_if<compute::BatchNorm>(&graph.ops[k].what);
  CHECK(norm != nullptr) << graph.ops[k].name << ": not batch norm";
  const compute::BatchNorm whole = *norm;
  std::vector<int64_t> counts = CountsOf(graph.ops[k], to->strategy.ops[k]);
  if (ComesFromOthers(k, *to)) AddName(k, to);
  const uint32_t m =
      AddOp(k, ".moments", compute::BatchMoments{.rows = static_cast<int64_t>(counts.size())},
            OpConfig(to->strategy.ops[k]), to);
  bool gradient = false;
  graph.ops[m].feeds = graph.ops[k].feeds;
  const std::vector<uint32_t> in = graph.ops[k].in;
  for (const uint32_t e : in) {
    PlanEdge edge = graph.edges[e];
    edge.to = m;
    gradient = gradient || edge.gradient;
    AddEdge(std::move(edge), &graph);
  }
  NormalizeByMoments(whole, std::move(counts), graph.ops[m].shapes, &graph.ops[k]);
  AddEdge({.from = m, .to = k, .input = 1, .offset = {0, 0, 0}, .gradient = gradient}, &graph);
}

}  // namespace

bool SharesMoments(const OpGraph& graph, const Strategy& strategy) {
  for (size_t k = 0; k < graph.ops.size(); ++k) {
    if (SharesMoments(graph.ops[k], strategy.ops[k])) return true;
  }
  return false;
}

LoweredStrategy WithMoments(const OpGraph& graph, const Strategy& strategy) {
  LoweredStrategy lowered = {.graph = graph, .strategy = strategy};
  for (uint32_t k = 0; k < graph.ops.size(); ++k) {
    if (SharesMoments(graph.ops[k], strategy.ops[k])) SplitNorm(k, &lowered);
  }
  return lowered;
}

Order WithMoments(const LoweredStrategy& lowered, const TimedOrder& timed) {
  std::map<uint32_t, std::vector<uint32_t>> before;  // by batch norm, in the order they run in
  for (const PlanEdge& edge : lowered.graph.edges) {
    const bool added = edge.from > edge.to;  // the model's lead forward
    if (added) before[edge.to].push_back(edge.from);
  }
  TimedOrder wished(timed.size());
  for (size_t seat = 0; seat < timed.size(); ++seat) {
    for (const TimedTask& of : timed[seat]) {
      std::vector<uint32_t> ops = before[of.task.op];
      ops.push_back(of.task.op);
      if (of.task.backward) std::reverse(ops.begin(), ops.end());
      for (const uint32_t op : ops) {
        if (of.task.backward && !HasBackward(lowered.graph, lowered.graph.ops[op])) continue;
        TimedTask task = of;
        task.task.op = op;
        wished[seat].push_back(task);
      }
    }
  }
  return Settled(lowered.graph, lowered.strategy, wished);
}

int64_t RowOfPart(const PlanOp& op, const OpConfig& config, uint32_t part) {
  int64_t row = 0;
  uint32_t below = static_cast<uint32_t>(config.devices.size());
  for (size_t d = 0; d < config.degrees.size(); ++d) {
    below /= config.degrees[d];
    const uint32_t at = part / below % config.degrees[d];
    if (IsCounted(op.rule.dims[d])) row = row * config.degrees[d] + at;
  }
  return row;
}

}  // namespace soapstone::planner
