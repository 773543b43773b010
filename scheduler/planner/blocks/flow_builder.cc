#include "scheduler/planner/blocks/flow_builder.h"

#include <algorithm>
#include <utility>

namespace soapstone::planner {

FlowBuilder::FlowBuilder(const Machine* machine, Options options)
    : machine_(machine),
      options_(options),
      devices_(static_cast<uint32_t>(machine->devices().size())),
      links_(static_cast<uint32_t>(machine->links().size())),
      resources_(devices_ + links_ + static_cast<uint32_t>(machine->servers().size())) {
  for (const Link& link : machine->links()) {
    ns_per_byte_.push_back(static_cast<double>(kSecond) / link.bytes_per_second);
  }
  sums_.assign(resources_, 0);
  open_at_.assign(resources_, -1);
}

Nanos FlowBuilder::BusyOf(uint32_t link, int64_t bytes) const {
  const auto streamed = static_cast<Nanos>(static_cast<double>(bytes) * ns_per_byte_[link]);
  return std::max<Nanos>(1, machine_->links()[link].message_ns + streamed);
}

void FlowBuilder::AddMessage(absl::Span<const uint32_t> path, int64_t bytes) {
  open_bytes_ += bytes;
  Nanos before = 0, rest = 0;
  for (uint32_t link : path) rest += machine_->links()[link].latency_ns;
  for (uint32_t link : path) {
    const uint32_t resource = LinkResource(link);
    const auto offset = static_cast<uint32_t>(std::min<Nanos>(before, UINT32_MAX));
    const auto left = static_cast<uint32_t>(std::min<Nanos>(rest, UINT32_MAX));
    if (open_at_[resource] < 0) {
      open_at_[resource] = static_cast<int32_t>(open_.size());
      open_.push_back({resource, offset, left, 0});
    }
    LinkUse& use = open_[static_cast<size_t>(open_at_[resource])];
    use.busy += BusyOf(link, bytes);
    use.offset = std::min(use.offset, offset);
    use.rest = std::max(use.rest, left);
    before += machine_->links()[link].latency_ns;
    rest -= machine_->links()[link].latency_ns;
  }
}

void FlowBuilder::EndFlow(absl::Span<const uint32_t> done, OpenTasks* to) {
  for (const LinkUse& use : open_) open_at_[use.resource] = -1;
  // The first is one that nothing comes before.
  std::sort(open_.begin(), open_.end(), [](const LinkUse& a, const LinkUse& b) {
    return std::pair(a.offset, a.resource) < std::pair(b.offset, b.resource);
  });
  const int64_t segments = cuts_flows() && !open_.empty()
                               ? std::max<int64_t>(1, (open_bytes_ + options_.segment_bytes - 1) /
                                                          options_.segment_bytes)
                               : 1;
  for (int64_t s = 0; s < segments; ++s) {
    if (s > 0) {
      to->tasks.back().next_segment = static_cast<int32_t>(to->tasks.size());
      const auto at = static_cast<uint32_t>(to->flows.size());
      to->tasks.push_back({.flows_begin = at, .flows_end = at});
    }
    Flow flow = {.uses_begin = static_cast<uint32_t>(to->uses.size())};
    for (const LinkUse& use : open_) {
      to->uses.push_back(use);
      to->uses.back().busy =
          std::max<Nanos>(1, use.busy * (s + 1) / segments - use.busy * s / segments);
    }
    flow.uses_end = static_cast<uint32_t>(to->uses.size());
    flow.done_begin = static_cast<uint32_t>(to->done.size());
    if (s + 1 == segments) to->done.insert(to->done.end(), done.begin(), done.end());
    flow.done_end = static_cast<uint32_t>(to->done.size());
    to->flows.push_back(flow);
    to->tasks.back().flows_end = static_cast<uint32_t>(to->flows.size());
  }
  open_.clear();
  open_bytes_ = 0;
}

void FlowBuilder::SumLoads(absl::Span<const OpenTasks* const> blocks, std::vector<Load>* loads) {
  touched_.clear();
  for (const OpenTasks* block : blocks) {
    for (const LinkUse& use : block->uses) {
      if (sums_[use.resource] == 0) touched_.push_back(use.resource);
      sums_[use.resource] += use.busy;
    }
  }
  std::sort(touched_.begin(), touched_.end());
  loads->clear();
  for (uint32_t resource : touched_) {
    loads->push_back({resource, sums_[resource]});
    sums_[resource] = 0;
  }
}

}  // namespace soapstone::planner
