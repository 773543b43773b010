#include "scheduler/planner/blocks/equivalence_classes.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace soapstone::planner {
namespace {

using Shape = std::vector<int64_t>;

bool HaveEquivalentParams(const OpGraph& graph, const PlanOp& a, const PlanOp& b) {
  return std::equal(
      a.params.begin(), a.params.end(), b.params.begin(), b.params.end(),
      [&](uint32_t x, uint32_t y) { return graph.params[x].shape == graph.params[y].shape; });
}

bool AreEquivalent(const OpGraph& graph, const PlanOp& a, const PlanOp& b) {
  return a.what == b.what && a.shapes.inputs == b.shapes.inputs &&
         a.shapes.outputs == b.shapes.outputs && a.rule == b.rule &&
         HaveEquivalentParams(graph, a, b);
}

// Classes of operators; only those of one kind and equal outputs are held against each other.
uint32_t ClassifyOps(const OpGraph& graph, std::vector<uint32_t>* of_op) {
  absl::flat_hash_map<std::pair<size_t, std::vector<Shape>>, std::vector<uint32_t>> firsts;
  uint32_t count = 0;
  for (uint32_t op = 0; op < graph.ops.size(); ++op) {
    std::pair<size_t, std::vector<Shape>> key = {graph.ops[op].what.index(), {}};
    for (const auto& output : graph.ops[op].shapes.outputs) key.second.push_back(output.shape);
    std::vector<uint32_t>& others = firsts[std::move(key)];
    const auto it = std::find_if(others.begin(), others.end(), [&](uint32_t other) {
      return AreEquivalent(graph, graph.ops[op], graph.ops[other]);
    });
    if (it != others.end()) {
      of_op->push_back((*of_op)[*it]);
      continue;
    }
    of_op->push_back(count++);
    others.push_back(op);
  }
  return count;
}

// What a group's synchronization follows from: each operator's class and the numbers of its
// parameters, counted within the group in the graph's order.
using GroupKey = std::vector<std::pair<uint32_t, std::vector<size_t>>>;

// False: a parameter is used outside of the group too.
bool KeyOf(const OpGraph& graph, const std::vector<uint32_t>& of_op, uint32_t group,
           GroupKey* key) {
  const std::vector<uint32_t>& members = graph.groups[group];
  std::vector<uint32_t> params;
  for (uint32_t op : members) {
    params.insert(params.end(), graph.ops[op].params.begin(), graph.ops[op].params.end());
  }
  std::sort(params.begin(), params.end());
  params.erase(std::unique(params.begin(), params.end()), params.end());
  for (uint32_t param : params) {
    for (uint32_t op : graph.params[param].ops) {
      if (graph.ops[op].group != group) return false;
    }
  }
  for (uint32_t op : members) {
    std::vector<size_t> numbers;
    for (uint32_t param : graph.ops[op].params) {
      numbers.push_back(static_cast<size_t>(std::lower_bound(params.begin(), params.end(), param) -
                                            params.begin()));
    }
    key->emplace_back(of_op[op], std::move(numbers));
  }
  return true;
}

}  // namespace

EquivalenceClasses FindEquivalenceClasses(const OpGraph& graph) {
  EquivalenceClasses classes;
  classes.ops = ClassifyOps(graph, &classes.of_op);
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, bool, std::vector<int64_t>>, uint32_t>
      edges;
  for (const PlanEdge& edge : graph.edges) {
    const auto [it, is_new] =
        edges.try_emplace({classes.of_op[edge.from], classes.of_op[edge.to], edge.output,
                           edge.input, edge.gradient, edge.offset},
                          classes.edges);
    classes.edges += is_new ? 1 : 0;
    classes.of_edge.push_back(it->second);
  }
  std::map<GroupKey, uint32_t> groups;
  for (uint32_t group = 0; group < graph.groups.size(); ++group) {
    GroupKey key;
    bool is_new = true;
    uint32_t its = classes.groups;
    if (KeyOf(graph, classes.of_op, group, &key)) {
      const auto [it, inserted] = groups.try_emplace(std::move(key), classes.groups);
      its = it->second;
      is_new = inserted;
    }
    classes.groups += is_new ? 1 : 0;
    classes.of_group.push_back(its);
  }
  return classes;
}

}  // namespace soapstone::planner
