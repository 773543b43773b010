// ConnectionGraph is what the simulator knows of a graph before any strategy: which operators are
// connected, by which edges, in which order, and which of all these are of one equivalence class.
// Simulator makes it once, and all of its parts read it. It knows no machine, no cost and no
// configuration.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/blocks/connection_reach.h"
#include "scheduler/planner/blocks/equivalence_classes.h"
#include "strategy/op_graph.h"

namespace soapstone::planner {

// All edges from one operator to another whose gradients flow back, or do not: they are sent
// together.
struct Connection {
  uint32_t from = 0, to = 0;
  bool gradient = false;
  std::vector<uint32_t> edges;
  uint32_t equivalence_class = 0;  // of equivalent operators, with equivalent edges
  ConnectionReach reach;
};

// One end of a connection, as the operator at the other end sees it.
struct EdgeEnd {
  uint32_t edge = 0, other = 0;  // connection; operator
};

// Lists of ends by operator, in one array: operator o's are [begin[o], begin[o + 1]) of `ends`.
struct EdgeEnds {
  std::vector<uint32_t> begin;
  std::vector<EdgeEnd> ends;
  absl::Span<const EdgeEnd> of(uint32_t op) const {
    return {ends.data() + begin[op], begin[op + 1] - begin[op]};
  }
};

// The operators of a graph and the connections between them. A value that does not change.
// Invariants:
//  1. Each edge of the graph is in one connection: that of its (from, to, gradient). Connections
//     are in the order of their first edges.
//  2. Each connection is once in out() under its producer and once in in() under its consumer,
//     ascending there.
//  3. Connections of one class have equivalent edges in the same order, and the same reach.
//  4. Operators of a micro-batch are neighbours, and micro-batches ascend.
// Threading: const methods from several threads at once.
class ConnectionGraph {
 public:
  static constexpr uint32_t kNoGroup = UINT32_MAX;

  // Keeps the pointer, which must outlive it.
  explicit ConnectionGraph(const OpGraph* graph);

  const OpGraph& graph() const { return *graph_; }
  const EquivalenceClasses& classes() const { return classes_; }
  uint32_t ops() const { return ops_; }
  uint32_t edges() const { return static_cast<uint32_t>(connections_.size()); }  // connections
  uint32_t groups() const { return groups_; }
  uint32_t micro_batches() const { return static_cast<uint32_t>(graph_->micro_batches); }
  uint32_t edge_classes() const { return edge_classes_; }  // of connections

  const Connection& edge(uint32_t id) const { return connections_[id]; }
  const EdgeEnds& in() const { return in_; }
  const EdgeEnds& out() const { return out_; }
  // The parameter group of the operator's parameters; kNoGroup: it has none.
  uint32_t group_of(uint32_t op) const { return group_of_[op]; }
  uint32_t micro_batch_of(uint32_t op) const { return graph_->ops[op].micro_batch; }
  // The first operator of a micro-batch; of the number of micro-batches: the number of operators.
  uint32_t first_op(uint32_t micro_batch) const { return first_ops_[micro_batch]; }

 private:
  void Connect();
  void Classify();

  const OpGraph* graph_;
  EquivalenceClasses classes_;
  uint32_t ops_, groups_, edge_classes_ = 0;
  std::vector<Connection> connections_;
  EdgeEnds in_, out_;
  std::vector<uint32_t> group_of_;   // by operator
  std::vector<uint32_t> first_ops_;  // by micro-batch, and their number behind
};

}  // namespace soapstone::planner
