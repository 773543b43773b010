// What the planner splits: the operators of a model at one global batch, chunks of time and
// micro-batches apart, and what flows between them. Made from models::Graph once a search; a value.
// Knows no devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/graph/graph.h"
#include "models/ops/op_rules.h"

namespace soapstone::planner {

// A tensor, or a part of it, that an operator reads of another. Element x of the producer's output
// is element x + offset of the consumer's input (an input in chunks of time has several edges).
struct PlanEdge {
  uint32_t from = 0, to = 0;       // operators; from < to
  uint32_t output = 0, input = 0;  // of the producer, of the consumer
  std::vector<int64_t> offset;     // by dimension, the batch first
  bool gradient = true;            // its gradient flows back: float32, and not from data alone
  friend bool operator==(const PlanEdge&, const PlanEdge&) = default;
};

// A field of the batch that an operator reads. Element x of the field is element x + offset of the
// input.
struct PlanFeed {
  uint32_t field = 0;  // of the model's inputs
  uint32_t input = 0;
  std::vector<int64_t> offset;  // by dimension, the batch first
  friend bool operator==(const PlanFeed&, const PlanFeed&) = default;
};

// One operator, or a chunk of time of it, of one micro-batch.
struct PlanOp {
  // Of the model's operator; of a chunk "decoder.lstm.0@2", of a micro-batch "conv1#3", of a chunk
  // of a micro-batch "decoder.lstm.0@2#3".
  std::string name;
  compute::Operator what;         // at its own shape
  models::OpShapes shapes;        // whole, with the batch
  models::PartitionRule rule;     // of these shapes
  std::vector<uint32_t> params;   // into OpGraph::params, in the order of shapes.params
  std::vector<uint32_t> in, out;  // edges, ascending; they join operators of one micro-batch
  std::vector<PlanFeed> feeds;
  uint32_t model_op = 0;     // of the model's graph
  uint32_t group = 0;        // into OpGraph::groups
  uint32_t micro_batch = 0;  // from 0 to OpGraph::micro_batches
  int64_t first_sample = 0;  // of the micro-batch, in the batch
};

// A parameter; chunks of time and micro-batches share theirs.
struct PlanParam {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<uint32_t> ops;  // that use it, ascending
  bool trained = true;        // running statistics are not
  friend bool operator==(const PlanParam&, const PlanParam&) = default;
};

// Operators are in an order in which they can run, all of a micro-batch before those of the next.
struct OpGraph {
  std::string model;         // the graph's name; callers may put in the name they asked for
  std::string model_sha256;  // models/graph/graph_text.h HashOf
  int64_t batch = 0;         // of the whole step
  int64_t time_chunk = 0;
  int64_t micro_batches = 1;
  std::vector<PlanOp> ops;
  std::vector<PlanEdge> edges;
  std::vector<PlanParam> params;
  // Weight groups: the chunks of time and micro-batches of one operator of the model, which share
  // its parameters if it has any. An operator that is whole is a group of its own.
  std::vector<std::vector<uint32_t>> groups;
};

struct OpGraphOptions {
  int64_t batch = 64;
  // Sequences are cut into chunks of at most so many steps, each an operator of its own for each
  // operator that works step by step (embedding, lstm, linear, attention's queries, loss, ..); the
  // last is shorter where it does not divide. 0: whole.
  int64_t time_chunk = 0;
  // The batch is cut into so many micro-batches, which differ by one sample at most, each with
  // operators of its own (GPipe: Huang et al. 2019, section 2.2). A step is all of them: gradients
  // are synchronized once, after the last one's backward. Batch norm norms by micro-batches.
  int64_t micro_batches = 1;
};

// The group's operator of the model: the name without chunk and micro-batch.
std::string NameOfGroup(const OpGraph& graph, uint32_t group);

bool HasParams(const OpGraph& graph, uint32_t group);

// Of an lstm in chunks each takes h and c (inputs 1 and 2) from the chunk before and gives them to
// the next (outputs 1 and 2); the first of an lstm without `state` takes zeros, and has no edges
// there. Inputs of the model have no edges. The FLOPs and parameters are the model's.
// Errors: InvalidArgument: a batch below 1 or one that shapes overflow with, a negative chunk,
// fewer than 1 micro-batch or more than there are samples.
absl::StatusOr<OpGraph> MakeOpGraph(const models::Graph& graph, const OpGraphOptions& options);

}  // namespace soapstone::planner
