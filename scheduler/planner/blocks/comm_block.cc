#include "scheduler/planner/blocks/comm_block.h"

#include <algorithm>
#include <numeric>

namespace soapstone::planner {

void BlockMemory::Reset(size_t bytes) {
  used_ = 0;
  if (bytes <= size_) return;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  size_ = bytes;
}

void OpenTasks::Clear() {
  tasks.clear();
  joins.clear();
  flows.clear();
  uses.clear();
  done.clear();
}

size_t OpenTasks::bytes() const {
  return BlockMemory::BytesFor(tasks) + BlockMemory::BytesFor(joins) +
         BlockMemory::BytesFor(flows) + BlockMemory::BytesFor(uses) + BlockMemory::BytesFor(done);
}

CommTasks OpenTasks::PackInto(BlockMemory* memory) const {
  CommTasks packed;
  packed.tasks = memory->Add(tasks);
  packed.flows = memory->Add(flows);
  packed.uses = memory->Add(uses);
  packed.done = memory->Add(done);
  packed.joins = memory->Add(joins);
  return packed;
}

void ListByPart(uint32_t parts, absl::Span<const std::pair<uint32_t, uint32_t>> items,
                std::vector<uint32_t>* all) {
  std::vector<uint32_t>& a = *all;
  a.assign(parts + 1 + items.size(), 0);
  for (const auto& [part, item] : items) ++a[part + 1];
  a[0] = parts + 1;
  for (uint32_t p = 0; p < parts; ++p) a[p + 1] += a[p];
  for (const auto& [part, item] : items) a[a[part]++] = item;
  for (uint32_t p = parts; p > 0; --p) a[p] = a[p - 1];
  a[0] = parts + 1;
}

BlockBuilder::BlockBuilder(const Machine* machine, Options options)
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
  uint32_t nodes = 0;
  for (const Device& device : machine->devices()) nodes = std::max(nodes, device.node + 1);
  flows_to_.resize(nodes);
  receivers_.resize(nodes);
}

Nanos BlockBuilder::BusyOf(uint32_t link, int64_t bytes) const {
  const auto streamed = static_cast<Nanos>(static_cast<double>(bytes) * ns_per_byte_[link]);
  return std::max<Nanos>(1, machine_->links()[link].message_ns + streamed);
}

void BlockBuilder::AddMessage(absl::Span<const uint32_t> path, int64_t bytes) {
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

void BlockBuilder::EndFlow(absl::Span<const uint32_t> done, OpenTasks* to) {
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

void BlockBuilder::SumLoads(absl::Span<const OpenTasks* const> blocks, std::vector<Load>* loads) {
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

void BlockBuilder::FindMessages(const std::vector<Overlap>& overlaps,
                                absl::Span<const uint32_t> from_devices,
                                absl::Span<const uint32_t> to_devices) {
  // Overlaps of one producer are neighbours: the table is cleared after each.
  for (size_t begin = 0; begin < overlaps.size();) {
    const size_t first_message = message_count_;
    size_t end = begin;
    const uint32_t producer = overlaps[begin].producer;
    const uint32_t from = from_devices[producer];
    for (; end < overlaps.size() && overlaps[end].producer == producer; ++end) {
      const Overlap& overlap = overlaps[end];
      const uint32_t device = to_devices[overlap.consumer];
      if (device == from) continue;
      const size_t key = size_t{overlap.region} * devices_ + device;
      if (key >= message_at_.size()) message_at_.resize(key + 1, -1);
      if (message_at_[key] < 0) {
        message_at_[key] = static_cast<int32_t>(message_count_);
        if (message_count_ == messages_.size()) messages_.emplace_back();
        Message& message = messages_[message_count_++];
        message.producer = producer;
        message.device = device;
        message.bytes = overlap.bytes;
        message.from_node = machine_->devices()[from].node;
        message.to_node = machine_->devices()[device].node;
        message.consumers.clear();
      }
      messages_[static_cast<size_t>(message_at_[key])].consumers.push_back(overlap.consumer);
    }
    if (message_count_ > first_message) {
      for (size_t i = begin; i < end; ++i) {
        const size_t key = size_t{overlaps[i].region} * devices_ + to_devices[overlaps[i].consumer];
        if (key < message_at_.size()) message_at_[key] = -1;
      }
    }
    begin = end;
  }
}

// Who receives at each node, and behind how many flows. What one flow alone brings needs no join.
void BlockBuilder::AddJoins(bool forward) {
  OpenTasks* const tasks = forward ? &forward_ : &backward_;
  std::vector<uint32_t>& waits = forward ? forward_waits_ : backward_waits_;
  for (std::vector<uint32_t>& parts : receivers_) {
    if (parts.empty()) continue;
    std::sort(parts.begin(), parts.end());
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    for (uint32_t part : parts) ++waits[part];
    const auto node = static_cast<size_t>(&parts - receivers_.data());
    if (flows_to_[node] == 1) continue;
    JoinNode join = {flows_to_[node], static_cast<uint32_t>(tasks->done.size())};
    tasks->done.insert(tasks->done.end(), parts.begin(), parts.end());
    join.done_end = static_cast<uint32_t>(tasks->done.size());
    parts.assign(1, static_cast<uint32_t>(tasks->joins.size()) | kIsJoin);
    tasks->joins.push_back(join);
  }
}

// Messages by (sending, receiving node): by counting, stably, first by the latter.
void BlockBuilder::OrderByNodes(bool forward) {
  order_.resize(message_count_);
  unordered_.resize(message_count_);
  std::iota(order_.begin(), order_.end(), 0);
  for (const bool by_sender : {false, true}) {
    const auto node_of = [&](uint32_t i) {
      return by_sender == forward ? messages_[i].from_node : messages_[i].to_node;
    };
    places_.assign(flows_to_.size() + 1, 0);
    for (uint32_t i : order_) ++places_[node_of(i) + 1];
    std::partial_sum(places_.begin(), places_.end(), places_.begin());
    order_.swap(unordered_);
    for (uint32_t i : unordered_) order_[places_[node_of(i)]++] = i;
  }
}

// One direction: a task a sending node, in it a flow a receiving node.
void BlockBuilder::AddTransfers(absl::Span<const uint32_t> from_devices, bool forward,
                                size_t senders) {
  OpenTasks* const tasks = forward ? &forward_ : &backward_;
  seen_by_sender_.resize(std::max(seen_by_sender_.size(), senders));
  const auto nodes_of = [&](uint32_t i) {
    const Message& m = messages_[i];
    return forward ? std::pair(m.from_node, m.to_node) : std::pair(m.to_node, m.from_node);
  };
  OrderByNodes(forward);
  for (std::vector<uint32_t>& parts : receivers_) parts.clear();
  std::fill(flows_to_.begin(), flows_to_.end(), 0);
  for (size_t i = 0; i < order_.size(); ++i) {
    const Message& m = messages_[order_[i]];
    const auto nodes = nodes_of(order_[i]);
    if (i == 0 || nodes_of(order_[i - 1]) != nodes) ++flows_to_[nodes.second];
    std::vector<uint32_t>& parts = receivers_[nodes.second];
    if (forward) {
      parts.insert(parts.end(), m.consumers.begin(), m.consumers.end());
    } else {
      parts.push_back(m.producer);
    }
  }
  AddJoins(forward);
  uint32_t task_stamp = 0;
  for (size_t begin = 0; begin < order_.size();) {
    const auto nodes = nodes_of(order_[begin]);
    if (begin == 0 || cuts_flows() || nodes_of(order_[begin - 1]).first != nodes.first) {
      const auto at = static_cast<uint32_t>(tasks->flows.size());
      tasks->tasks.push_back({.flows_begin = at, .flows_end = at});
      task_stamp = ++stamp_;
    }
    const auto task = static_cast<uint32_t>(tasks->tasks.size()) - 1;
    const auto send = [&](uint32_t part) {
      if (seen_by_sender_[part] == task_stamp) return;
      seen_by_sender_[part] = task_stamp;
      pairs_.emplace_back(part, task | kIsTask);
      ++tasks->tasks[task].waits;
    };
    for (; begin < order_.size() && nodes_of(order_[begin]) == nodes; ++begin) {
      const Message& m = messages_[order_[begin]];
      const uint32_t from = from_devices[m.producer];
      AddMessage(forward ? machine_->Path(from, m.device) : machine_->Path(m.device, from),
                 m.bytes);
      bytes_ += m.bytes;
      if (forward) {
        send(m.producer);
      } else {
        for (uint32_t consumer : m.consumers) send(consumer);
      }
    }
    EndFlow(receivers_[nodes.second], tasks);
  }
}

// Pairs of parts on one device that meet, each once.
void BlockBuilder::FindLocal(absl::Span<const std::vector<Overlap>* const> overlaps,
                             absl::Span<const uint32_t> from_devices,
                             absl::Span<const uint32_t> to_devices) {
  local_.clear();
  for (const std::vector<Overlap>* of_edge : overlaps) {
    for (const Overlap& overlap : *of_edge) {
      if (from_devices[overlap.producer] == to_devices[overlap.consumer]) {
        local_.emplace_back(overlap.producer, overlap.consumer);
      }
    }
  }
  if (overlaps.size() == 1) return;
  std::sort(local_.begin(), local_.end());
  local_.erase(std::unique(local_.begin(), local_.end()), local_.end());
}

void BlockBuilder::BuildEdge(absl::Span<const std::vector<Overlap>* const> overlaps,
                             absl::Span<const uint32_t> from_devices,
                             absl::Span<const uint32_t> to_devices, bool gradient,
                             EdgeBlock* block) {
  const size_t producers = from_devices.size(), consumers = to_devices.size();
  forward_.Clear();
  backward_.Clear();
  received_.clear();
  bytes_ = 0;
  forward_waits_.assign(consumers, 0);
  backward_waits_.assign(producers, 0);
  message_count_ = 0;
  for (const std::vector<Overlap>* of_edge : overlaps) {
    FindMessages(*of_edge, from_devices, to_devices);
  }
  for (size_t i = 0; i < message_count_; ++i) {
    received_.push_back({messages_[i].device, messages_[i].bytes});
  }
  FindLocal(overlaps, from_devices, to_devices);
  block->one_to_one =
      message_count_ == 0 && gradient && local_.size() == producers && producers == consumers &&
      std::all_of(local_.begin(), local_.end(), [](const auto& p) { return p.first == p.second; });
  pairs_ = local_;
  for (const auto& [producer, consumer] : local_) ++forward_waits_[consumer];
  AddTransfers(from_devices, true, producers);
  ListByPart(static_cast<uint32_t>(producers), pairs_, &forward_to_);
  pairs_.clear();
  if (gradient) {
    for (const auto& [producer, consumer] : local_) {
      pairs_.emplace_back(consumer, producer);
      ++backward_waits_[producer];
    }
    AddTransfers(from_devices, false, consumers);
  }
  ListByPart(static_cast<uint32_t>(consumers), pairs_, &backward_to_);
  const OpenTasks* const both[] = {&forward_, &backward_};
  SumLoads(both, &loads_);
  PackEdge(block);
}

void BlockBuilder::PackEdge(EdgeBlock* block) const {
  BlockMemory& memory = block->memory;
  memory.Reset(forward_.bytes() + backward_.bytes() + BlockMemory::BytesFor(forward_to_) +
               BlockMemory::BytesFor(backward_to_) + BlockMemory::BytesFor(forward_waits_) +
               BlockMemory::BytesFor(backward_waits_) + BlockMemory::BytesFor(loads_) +
               BlockMemory::BytesFor(received_));
  block->forward_to.all = memory.Add(forward_to_).begin();
  block->forward = forward_.PackInto(&memory);
  block->backward_to.all = memory.Add(backward_to_).begin();
  block->backward = backward_.PackInto(&memory);
  block->forward_waits = memory.Add(forward_waits_);
  block->backward_waits = memory.Add(backward_waits_);
  block->loads = memory.Add(loads_);
  block->received = memory.Add(received_);
  block->bytes = bytes_;
}

}  // namespace soapstone::planner
