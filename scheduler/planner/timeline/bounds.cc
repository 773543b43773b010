#include "scheduler/planner/timeline/bounds.h"

#include <algorithm>

#include "scheduler/planner/timeline/timeline_task.h"

namespace soapstone::planner {

Bounds::Bounds(const ConnectionGraph* connections, size_t devices)
    : connections_(connections),
      head_forward_(connections->ops(), 0),
      head_backward_(connections->ops(), 0),
      tail_forward_(connections->ops(), 0),
      tail_backward_(connections->ops(), 0),
      device_head_(devices, 0),
      device_tail_(devices, 0) {}

Nanos Bounds::PathBound(absl::Span<const OpState* const> ops) {
  const auto count = static_cast<uint32_t>(ops.size());
  // Tails of backward tasks run against the graph's order backward: along it.
  for (uint32_t i = 0; i < count; ++i) {
    Nanos head = 0, tail = 0;
    for (const auto [edge, from] : connections_->in().of(i)) {
      const Connection& connection = connections_->edge(edge);
      if (!connection.reach.feeds_all) continue;
      head = std::max(head, head_forward_[from] + ops[from]->forward_min);
      if (!connection.gradient) continue;
      tail = std::max(tail, ops[from]->backward_min + tail_backward_[from]);
    }
    head_forward_[i] = head;
    tail_backward_[i] = tail;
  }
  Nanos bound = 0;
  for (uint32_t i = count; i-- > 0;) {
    bool turns = true;  // no gradient comes from behind
    Nanos head = 0, tail = 0;
    for (const auto [edge, to] : connections_->out().of(i)) {
      const Connection& connection = connections_->edge(edge);
      const bool gradient = connection.gradient;
      turns = turns && !gradient;
      if (!connection.reach.reads_all) continue;
      tail = std::max(tail, ops[to]->forward_min + tail_forward_[to]);
      if (gradient) head = std::max(head, head_backward_[to] + ops[to]->backward_min);
    }
    if (turns) {
      tail = std::max(tail, ops[i]->backward_min + tail_backward_[i]);
      head = std::max(head, head_forward_[i] + ops[i]->forward_min);
    }
    tail_forward_[i] = tail;
    head_backward_[i] = head;
    bound = std::max({bound, head_forward_[i] + ops[i]->forward_max + tail,
                      head + ops[i]->backward_max + tail_backward_[i]});
  }
  return bound;
}

Nanos Bounds::DeviceBound(absl::Span<const OpState* const> ops, const std::vector<Nanos>& compute) {
  std::fill(device_head_.begin(), device_head_.end(), kNever);
  std::fill(device_tail_.begin(), device_tail_.end(), kNever);
  for (uint32_t i = 0; i < ops.size(); ++i) {
    for (uint32_t device : ops[i]->config.devices) {
      device_head_[device] = std::min(device_head_[device], head_forward_[i]);
      device_tail_[device] = std::min(device_tail_[device], tail_backward_[i]);
    }
  }
  Nanos bound = 0;
  for (size_t d = 0; d < compute.size(); ++d) {
    if (device_tail_[d] == kNever) device_tail_[d] = 0;  // nothing is there
    if (compute[d] > 0) {
      bound = std::max(bound, device_head_[d] + compute[d] + device_tail_[d]);
    }
  }
  return bound;
}

}  // namespace soapstone::planner
