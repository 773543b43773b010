// What a step takes at least, before any task of it is looked at.
#include <algorithm>
#include <vector>

#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {
namespace {

using models::DimUse;
using models::Range;

// [place of the tensor's dimension, from `offset` on] whether this use reaches it.
void Cover(const DimUse& use, int64_t extent, int64_t side, int64_t offset,
           std::vector<uint8_t>* covered) {
  const int64_t section = side / use.repeats;
  for (int64_t r = 0; r < use.repeats; ++r) {
    for (int64_t i = 0; i < (use.dim < 0 ? 1 : extent); ++i) {
      const Range reach = use.dim < 0 ? Range{0, section} : models::ReachOf(use, {i, i + 1});
      const int64_t begin = std::max<int64_t>(reach.begin, 0) + r * section + offset;
      const int64_t end = std::min(reach.end, section) + r * section + offset;
      for (int64_t x = std::max<int64_t>(begin, 0);
           x < std::min<int64_t>(end, static_cast<int64_t>(covered->size())); ++x) {
        (*covered)[static_cast<size_t>(x)] = 1;
      }
    }
  }
}

// Whether each index of this use's dimension, unit by unit, reaches a covered place.
bool EachReaches(const DimUse& use, const models::PartitionRule& rule, int64_t side, int64_t offset,
                 const std::vector<uint8_t>& covered) {
  const int64_t units = use.dim < 0 ? 1
                                    : rule.dims[static_cast<size_t>(use.dim)].extent /
                                          rule.dims[static_cast<size_t>(use.dim)].unit;
  const int64_t unit = use.dim < 0 ? 1 : rule.dims[static_cast<size_t>(use.dim)].unit;
  for (int64_t i = 0; i < units; ++i) {
    const int64_t section = side / use.repeats;
    bool meets = false;
    for (int64_t r = 0; r < use.repeats && !meets; ++r) {
      const Range reach =
          use.dim < 0 ? Range{0, section} : models::ReachOf(use, {i * unit, (i + 1) * unit});
      const int64_t begin = std::max<int64_t>(reach.begin, 0) + r * section + offset;
      const int64_t end = std::min({std::min(reach.end, section) + r * section + offset,
                                    static_cast<int64_t>(covered.size())});
      for (int64_t x = std::max<int64_t>(begin, 0); x < end && !meets; ++x) {
        meets = covered[static_cast<size_t>(x)] != 0;
      }
    }
    if (!meets) return false;
  }
  return true;
}

bool DimsAreDistinct(const models::TensorUse& use) {
  for (size_t i = 0; i < use.size(); ++i) {
    for (size_t j = i + 1; j < use.size(); ++j) {
      if (use[i].dim >= 0 && use[i].dim == use[j].dim) return false;
    }
  }
  return true;
}

// Whether each index of a dimension is one place of the tensor's, and no place is left.
bool IsOneToOne(const DimUse& use, int64_t extent, int64_t side) {
  return use == DimUse{.dim = use.dim} && use.dim >= 0 && extent == side;
}

int64_t ExtentOf(const models::PartitionRule& rule, const DimUse& use) {
  return use.dim < 0 ? 1 : rule.dims[static_cast<size_t>(use.dim)].extent;
}

}  // namespace

void Simulator::FindReach(Connection* connection) const {
  for (uint32_t id : connection->edges) {
    const PlanEdge& edge = graph_->edges[id];
    const PlanOp& from = graph_->ops[edge.from];
    const PlanOp& to = graph_->ops[edge.to];
    const auto& output = from.rule.outputs[edge.output];
    const auto& input = to.rule.inputs[edge.input];
    bool feeds_all = DimsAreDistinct(output) && DimsAreDistinct(input);
    bool reads_all = feeds_all;
    for (size_t i = 0; i < output.size(); ++i) {
      const int64_t out_side = from.shapes.outputs[edge.output].shape[i];
      const int64_t in_side = to.shapes.inputs[edge.input].shape[i];
      const int64_t offset = edge.offset.empty() ? 0 : edge.offset[i];
      if (offset == 0 && out_side == in_side &&
          IsOneToOne(output[i], ExtentOf(from.rule, output[i]), out_side) &&
          IsOneToOne(input[i], ExtentOf(to.rule, input[i]), in_side)) {
        continue;  // as samples are, of which there may be a million
      }
      // In places of the input.
      std::vector<uint8_t> written(static_cast<size_t>(in_side), 0), read = written;
      Cover(output[i], ExtentOf(from.rule, output[i]), out_side, offset, &written);
      Cover(input[i], ExtentOf(to.rule, input[i]), in_side, 0, &read);
      feeds_all = feeds_all && EachReaches(input[i], to.rule, in_side, 0, written);
      reads_all = reads_all && EachReaches(output[i], from.rule, out_side, offset, read);
    }
    connection->feeds_all |= feeds_all;
    connection->reads_all |= reads_all;
  }
}

// The longest path through the operators, forward and back, where each takes what its quickest part
// does, but for one, which takes what its slowest does. Only over edges by which every part waits
// for some part, or is waited for by some:
//   head(o) = max over o's predecessors a of head(a) + min(a),  tail alike from the end,
//   bound = max over o of head(o) + max(o) + tail(o)
Nanos Simulator::PathBound() {
  head_forward_.resize(n_);
  head_backward_.resize(n_);
  // Tails of backward tasks run against the graph's order backward: along it.
  for (uint32_t i = 0; i < n_; ++i) {
    Nanos head = 0, tail = 0;
    for (const auto [edge, from] : in_.of(i)) {
      if (!connections_[edge].feeds_all) continue;
      head = std::max(head, head_forward_[from] + ops_[from]->forward_min);
      if (!connections_[edge].gradient) continue;
      tail = std::max(tail, ops_[from]->backward_min + tail_backward_[from]);
    }
    head_forward_[i] = head;
    tail_backward_[i] = tail;
  }
  Nanos bound = 0;
  for (uint32_t i = n_; i-- > 0;) {
    bool turns = true;  // no gradient comes from behind
    Nanos head = 0, tail = 0;
    for (const auto [edge, to] : out_.of(i)) {
      const bool gradient = connections_[edge].gradient;
      turns = turns && !gradient;
      if (!connections_[edge].reads_all) continue;
      tail = std::max(tail, ops_[to]->forward_min + tail_forward_[to]);
      if (gradient) head = std::max(head, head_backward_[to] + ops_[to]->backward_min);
    }
    if (turns) {
      tail = std::max(tail, ops_[i]->backward_min + tail_backward_[i]);
      head = std::max(head, head_forward_[i] + ops_[i]->forward_min);
    }
    tail_forward_[i] = tail;
    head_backward_[i] = head;
    bound = std::max({bound, head_forward_[i] + ops_[i]->forward_max + tail,
                      head + ops_[i]->backward_max + tail_backward_[i]});
  }
  return bound;
}

// A device computes for its load, not before some operator of it can have its inputs, and when it
// is done, what follows some backward part of it is still to come:
//   bound = max over d of min head + load(d) + min tail
// with the heads and tails that PathBound found.
Nanos Simulator::DeviceBound() {
  device_head_.assign(compute_load_.size(), kNever);
  device_tail_.assign(compute_load_.size(), kNever);
  for (uint32_t i = 0; i < n_; ++i) {
    for (uint32_t device : ops_[i]->config.devices) {
      device_head_[device] = std::min(device_head_[device], head_forward_[i]);
      device_tail_[device] = std::min(device_tail_[device], tail_backward_[i]);
    }
  }
  Nanos bound = 0;
  for (size_t d = 0; d < compute_load_.size(); ++d) {
    if (device_tail_[d] == kNever) device_tail_[d] = 0;  // nothing is there
    if (compute_load_[d] > 0) {
      bound = std::max(bound, device_head_[d] + compute_load_[d] + device_tail_[d]);
    }
  }
  return bound;
}

}  // namespace soapstone::planner
