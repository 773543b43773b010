// Small machines, costs and graphs for the planner's tests, made by hand so that their makespans
// can be told by hand.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "scheduler/planner/cost/cost_model.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

struct FakeMachineSpec {
  uint32_t nodes = 1, devices_per_node = 2;
  double bytes_per_ns = 1;      // of every link
  double nic_bytes_per_ns = 0;  // of nodes' NICs; 0: as of every link
  Nanos latency_ns = 10;
  uint64_t memory_bytes = uint64_t{1} << 40;
  uint32_t servers = 0;   // each on a node of its own, behind a NIC in and one out
  bool on_nodes = false;  // instead: server s on node s, whose devices reach it by a link each way
};

// Within a node a link for each ordered pair; between nodes the NIC out of the one and into the
// other. All links alike. Links in the order: pairs (a, b) of a node, then out and in by node, then
// in and out by server; those of servers on nodes are their own ways in and out.
inline Machine FakeMachine(const FakeMachineSpec& spec) {
  Machine::Parts parts = {.name = "fake"};
  parts.kinds = {{"fake", 1e12, 1e9, spec.memory_bytes, 0}};
  const auto link = [&](const std::string& name) {
    parts.links.push_back({name, spec.bytes_per_ns * 1e9, spec.latency_ns, 0});
    return static_cast<uint32_t>(parts.links.size()) - 1;
  };
  const uint32_t devices = spec.nodes * spec.devices_per_node;
  parts.device_paths.resize(size_t{devices} * devices);
  for (uint32_t d = 0; d < devices; ++d) {
    parts.devices.push_back({absl::StrCat("d", d), 0, d / spec.devices_per_node});
  }
  for (uint32_t a = 0; a < devices; ++a) {
    for (uint32_t b = 0; b < devices; ++b) {
      if (a == b || parts.devices[a].node != parts.devices[b].node) continue;
      parts.device_paths[a * devices + b] = {link(absl::StrCat("p", a, "-", b))};
    }
  }
  std::vector<uint32_t> out, in;
  for (uint32_t node = 0; node < spec.nodes; ++node) {
    out.push_back(link(absl::StrCat("out", node)));
    in.push_back(link(absl::StrCat("in", node)));
    if (spec.nic_bytes_per_ns == 0) continue;
    for (const uint32_t nic : {out.back(), in.back()}) {
      parts.links[nic].bytes_per_second = spec.nic_bytes_per_ns * 1e9;
    }
  }
  for (uint32_t a = 0; a < devices; ++a) {
    for (uint32_t b = 0; b < devices; ++b) {
      const uint32_t from = parts.devices[a].node, to = parts.devices[b].node;
      if (from != to) parts.device_paths[a * devices + b] = {out[from], in[to]};
    }
  }
  parts.push_paths.resize(size_t{devices} * spec.servers);
  parts.pull_paths.resize(size_t{devices} * spec.servers);
  for (uint32_t s = 0; s < spec.servers; ++s) {
    const uint32_t its = spec.on_nodes ? s : spec.nodes + s;
    parts.servers.push_back({absl::StrCat("s", s), its, spec.bytes_per_ns * 1e9});
    const uint32_t server_in = link(absl::StrCat("sin", s));
    const uint32_t server_out = link(absl::StrCat("sout", s));
    for (uint32_t d = 0; d < devices; ++d) {
      const uint32_t node = parts.devices[d].node;
      std::vector<uint32_t>& push = parts.push_paths[d * spec.servers + s];
      std::vector<uint32_t>& pull = parts.pull_paths[s * devices + d];
      push = {out[node], server_in};
      pull = {server_out, in[node]};
      if (!spec.on_nodes) continue;
      push = {server_in};
      pull = {server_out};
      if (its == node) continue;
      push = {out[node], in[its], server_in};
      pull = {server_out, out[its], in[node]};
    }
  }
  absl::StatusOr<Machine> machine = Machine::Make(std::move(parts));
  CHECK(machine.ok()) << machine.status();
  return *std::move(machine);
}

// A part costs so much by place of its iteration space: forward once, backward twice.
class FakeCosts : public CostModel {
 public:
  explicit FakeCosts(double ns_per_place = 1) : ns_per_place_(ns_per_place) {}
  PartCost CostOf(const PlanOp& /*op*/, const models::Block& part,
                  uint32_t /*kind*/) const override {
    double places = ns_per_place_;
    for (const models::Range& range : part) places *= static_cast<double>(range.size());
    const auto ns = static_cast<Nanos>(places);
    return {.forward_ns = ns, .backward_ns = 2 * ns};
  }
  std::string sha256() const override { return "fake"; }

 private:
  double ns_per_place_;
};

// A tensor of the graph that is made: output `output` of operator `op`, or an input of the model.
struct FakeTensor {
  int64_t op = -1;
  uint32_t output = 0;
  compute::TensorSpec spec;
  bool gradient = false;
};

// Adds operators one by one; operators with one `shared` (≥ 0) share their parameters.
class FakeGraph {
 public:
  explicit FakeGraph(int64_t batch) { graph_.batch = batch; }

  FakeTensor Input(std::vector<int64_t> shape,
                   compute::DataType type = compute::DataType::kFloat32) {
    return {.spec = {type, std::move(shape)}};
  }
  FakeTensor Add(const compute::Operator& what, const std::vector<FakeTensor>& inputs,
                 int shared = -1) {
    return AddAll(what, inputs, shared)[0];
  }
  std::vector<FakeTensor> AddAll(const compute::Operator& what,
                                 const std::vector<FakeTensor>& inputs, int shared = -1) {
    const auto id = static_cast<uint32_t>(graph_.ops.size());
    std::vector<compute::TensorSpec> specs;
    bool gradient = false;
    for (const FakeTensor& input : inputs) {
      specs.push_back(input.spec);
      gradient |= input.gradient;
    }
    PlanOp op = {.name = absl::StrCat(std::string(compute::NameOf(what)), id), .what = what};
    absl::StatusOr<models::OpShapes> shapes = models::InferShapes(what, specs);
    CHECK(shapes.ok()) << shapes.status();
    op.shapes = *std::move(shapes);
    op.rule = models::PartitionOf(what, op.shapes);
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].op < 0) continue;
      PlanEdge edge = {static_cast<uint32_t>(inputs[i].op), id, inputs[i].output, i};
      edge.offset.assign(inputs[i].spec.shape.size(), 0);
      edge.gradient = inputs[i].gradient;
      op.in.push_back(static_cast<uint32_t>(graph_.edges.size()));
      graph_.ops[edge.from].out.push_back(op.in.back());
      graph_.edges.push_back(edge);
    }
    AddParams(id, shared, &op);
    graph_.groups[op.group].push_back(id);
    std::vector<FakeTensor> outputs;
    for (uint32_t i = 0; i < op.shapes.outputs.size(); ++i) {
      outputs.push_back({id, i, op.shapes.outputs[i], gradient || !op.params.empty()});
    }
    graph_.ops.push_back(std::move(op));
    return outputs;
  }
  const OpGraph& graph() const { return graph_; }

 private:
  void AddParams(uint32_t id, int shared, PlanOp* op) {
    for (size_t i = 0; i < shared_.size(); ++i) {
      if (shared < 0 || shared_[i].first != shared) continue;
      const PlanOp& first = graph_.ops[shared_[i].second];
      op->params = first.params;
      op->group = first.group;
      for (uint32_t param : op->params) graph_.params[param].ops.push_back(id);
      return;
    }
    if (shared >= 0) shared_.emplace_back(shared, id);
    for (const ParamSpec& param : op->shapes.params) {
      op->params.push_back(static_cast<uint32_t>(graph_.params.size()));
      graph_.params.push_back({param.name, param.shape, {id}, param.average_rate == 0});
    }
    op->group = static_cast<uint32_t>(graph_.groups.size());
    graph_.groups.emplace_back();
  }

  OpGraph graph_;
  std::vector<std::pair<int, uint32_t>> shared_;  // key, first operator
};

}  // namespace soapstone::planner
