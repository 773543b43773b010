#include "scheduler/planner/blocks/connection_graph.h"

#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "glog/logging.h"

namespace soapstone::planner {
namespace {

EdgeEnds InOneArray(const std::vector<std::vector<EdgeEnd>>& lists) {
  EdgeEnds all;
  for (const std::vector<EdgeEnd>& list : lists) {
    all.begin.push_back(static_cast<uint32_t>(all.ends.size()));
    all.ends.insert(all.ends.end(), list.begin(), list.end());
  }
  all.begin.push_back(static_cast<uint32_t>(all.ends.size()));
  return all;
}

}  // namespace

ConnectionGraph::ConnectionGraph(const OpGraph* graph)
    : graph_(graph),
      classes_(FindEquivalenceClasses(*graph)),
      ops_(static_cast<uint32_t>(graph->ops.size())),
      groups_(static_cast<uint32_t>(graph->groups.size())) {
  Connect();
  Classify();
  for (const PlanOp& op : graph->ops) {
    group_of_.push_back(op.params.empty() ? kNoGroup : op.group);
  }
  for (uint32_t op = 0; op < ops_; ++op) {
    CHECK_LE(first_ops_.size(), graph->ops[op].micro_batch + size_t{1});
    if (first_ops_.size() == graph->ops[op].micro_batch) first_ops_.push_back(op);
  }
  first_ops_.push_back(ops_);
}

void ConnectionGraph::Connect() {
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, bool>, uint32_t> numbers;
  for (uint32_t id = 0; id < graph_->edges.size(); ++id) {
    const PlanEdge& edge = graph_->edges[id];
    const auto [it, is_new] = numbers.try_emplace({edge.from, edge.to, edge.gradient}, edges());
    if (is_new) {
      connections_.push_back({.from = edge.from, .to = edge.to, .gradient = edge.gradient});
    }
    connections_[it->second].edges.push_back(id);
  }
  std::vector<std::vector<EdgeEnd>> in(ops_), out(ops_);
  for (uint32_t id = 0; id < edges(); ++id) {
    out[connections_[id].from].push_back({id, connections_[id].to});
    in[connections_[id].to].push_back({id, connections_[id].from});
  }
  in_ = InOneArray(in);
  out_ = InOneArray(out);
}

// An edge's class names its operators' ones.
void ConnectionGraph::Classify() {
  absl::flat_hash_map<std::vector<uint32_t>, uint32_t> firsts;
  for (uint32_t id = 0; id < edges(); ++id) {
    Connection& connection = connections_[id];
    std::vector<uint32_t> key;
    for (uint32_t edge : connection.edges) key.push_back(classes_.of_edge[edge]);
    const auto [it, is_new] = firsts.try_emplace(std::move(key), id);
    if (is_new) {
      connection.reach = FindReach(*graph_, connection.edges);
      connection.equivalence_class = edge_classes_++;
    } else {
      connection.reach = connections_[it->second].reach;
      connection.equivalence_class = connections_[it->second].equivalence_class;
    }
  }
}

}  // namespace soapstone::planner
