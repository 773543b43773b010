#include "scheduler/planner/searchers/m_etf.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "scheduler/planner/blocks/op_split.h"

namespace soapstone::planner {
namespace {

int64_t BytesOf(const std::vector<int64_t>& shape) {
  int64_t elements = kElementBytes;
  for (int64_t side : shape) elements *= side;
  return elements;
}

class ListScheduler {
 public:
  ListScheduler(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                double optimizer_floats)
      : graph_(graph), machine_(machine), devices_(machine.devices().size()) {
    for (const PlanOp& op : graph.ops) {
      models::Block whole;
      for (const models::IterationDim& dim : op.rule.dims) whole.push_back({0, dim.extent});
      std::vector<Nanos>& of_op = times_.emplace_back();
      for (uint32_t kind = 0; kind < machine.kinds().size(); ++kind) {
        const PartCost cost = costs.CostOf(op, whole, kind);
        of_op.push_back(std::max<Nanos>(1, cost.forward_ns + cost.backward_ns));
      }
      missing_.push_back(op.in.size());
    }
    for (const std::vector<uint32_t>& group : graph.groups) {
      std::set<uint32_t> params;
      double bytes = 0;
      for (uint32_t op : group) {
        params.insert(graph.ops[op].params.begin(), graph.ops[op].params.end());
        for (const compute::TensorSpec& output : graph.ops[op].shapes.outputs) {
          bytes += static_cast<double>(BytesOf(output.shape));
        }
      }
      for (uint32_t param : params) {
        bytes += (2 + optimizer_floats) * static_cast<double>(BytesOf(graph.params[param].shape));
      }
      need_.push_back(bytes);
    }
    for (uint32_t d = 0; d < devices_; ++d) {
      room_.push_back(static_cast<double>(machine.kind_of(d).memory_bytes));
    }
    device_of_group_.assign(graph.groups.size(), kNowhere);
    device_of_.assign(graph.ops.size(), kNowhere);
    end_.assign(graph.ops.size(), 0);
    free_.assign(devices_, 0);
  }

  std::vector<uint32_t> Run() {
    for (size_t placed = 0; placed < graph_.ops.size(); ++placed) PlaceOne();
    return device_of_;
  }

 private:
  static constexpr uint32_t kNowhere = UINT32_MAX;

  // Devices that the operator may go to.
  std::vector<uint32_t> Candidates(uint32_t op) const {
    const uint32_t group = graph_.ops[op].group;
    if (device_of_group_[group] != kNowhere) return {device_of_group_[group]};
    std::vector<uint32_t> fitting;
    for (uint32_t d = 0; d < devices_; ++d) {
      if (room_[d] >= need_[group]) fitting.push_back(d);
    }
    if (!fitting.empty()) return fitting;
    return {static_cast<uint32_t>(std::max_element(room_.begin(), room_.end()) - room_.begin())};
  }

  Nanos StartOn(uint32_t op, uint32_t device) const {
    Nanos start = free_[device];
    for (uint32_t edge : graph_.ops[op].in) {
      const PlanEdge& e = graph_.edges[edge];
      const int64_t bytes = BytesOf(graph_.ops[e.from].shapes.outputs[e.output].shape);
      Nanos latency = 0, slowest = 0;
      for (uint32_t link : machine_.Path(device_of_[e.from], device)) {
        const Link& l = machine_.links()[link];
        latency += l.latency_ns;
        const double streamed = static_cast<double>(bytes) / l.bytes_per_second * kSecond;
        slowest = std::max(slowest, l.message_ns + static_cast<Nanos>(streamed));
      }
      start = std::max(start, end_[e.from] + latency + slowest);
    }
    return start;
  }

  void PlaceOne() {
    uint32_t best_op = kNowhere, best_device = 0;
    Nanos earliest = kNever;
    for (uint32_t op = 0; op < graph_.ops.size(); ++op) {
      if (device_of_[op] != kNowhere || missing_[op] > 0) continue;
      for (uint32_t device : Candidates(op)) {
        const Nanos start = StartOn(op, device);
        if (start >= earliest) continue;
        earliest = start;
        best_op = op;
        best_device = device;
      }
    }
    const uint32_t group = graph_.ops[best_op].group;
    if (device_of_group_[group] == kNowhere) {
      device_of_group_[group] = best_device;
      room_[best_device] -= need_[group];
    }
    device_of_[best_op] = best_device;
    end_[best_op] = earliest + times_[best_op][machine_.devices()[best_device].kind];
    free_[best_device] = end_[best_op];
    for (uint32_t edge : graph_.ops[best_op].out) --missing_[graph_.edges[edge].to];
  }

  const OpGraph& graph_;
  const Machine& machine_;
  const size_t devices_;
  std::vector<std::vector<Nanos>> times_;  // [operator][kind]
  std::vector<size_t> missing_;            // [operator] inputs that are not placed
  std::vector<double> need_, room_;        // bytes: [group], [device]
  std::vector<uint32_t> device_of_group_, device_of_;
  std::vector<Nanos> end_, free_;  // [operator], [device]
};

}  // namespace

Strategy EarliestTaskFirst(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                           double optimizer_floats) {
  Strategy strategy = SingleDevice(graph, 0);
  const std::vector<uint32_t> devices =
      ListScheduler(graph, machine, costs, optimizer_floats).Run();
  for (size_t op = 0; op < devices.size(); ++op) strategy.ops[op].devices = {devices[op]};
  return strategy;
}

absl::StatusOr<SearchResult> MetfSearcher::Search(const SearchProblem& problem,
                                                  const SearchOptions& options) const {
  return PricedAlone(problem, options,
                     EarliestTaskFirst(problem.graph(), problem.machine(), *problem.costs,
                                       options.simulator.optimizer_floats));
}

}  // namespace soapstone::planner
