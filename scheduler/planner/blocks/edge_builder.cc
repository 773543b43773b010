#include "scheduler/planner/blocks/edge_builder.h"

#include <algorithm>

namespace soapstone::planner {

EdgeBuilder::EdgeBuilder(const Machine* machine, FlowBuilder* flows)
    : machine_(machine), flows_(flows), messages_(machine) {
  flows_to_.resize(messages_.nodes());
  receivers_.resize(messages_.nodes());
}

// What one flow alone brings needs no join.
void EdgeBuilder::AddJoins(Direction* direction) {
  OpenTasks& tasks = direction->tasks;
  for (std::vector<uint32_t>& parts : receivers_) {
    if (parts.empty()) continue;
    std::sort(parts.begin(), parts.end());
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    for (uint32_t part : parts) ++direction->waits[part];
    const auto node = static_cast<size_t>(&parts - receivers_.data());
    if (flows_to_[node] == 1) continue;
    JoinNode join = {flows_to_[node], static_cast<uint32_t>(tasks.done.size())};
    tasks.done.insert(tasks.done.end(), parts.begin(), parts.end());
    join.done_end = static_cast<uint32_t>(tasks.done.size());
    parts.assign(1, static_cast<uint32_t>(tasks.joins.size()) | kIsJoin);
    tasks.joins.push_back(join);
  }
}

// Who receives at each node, and behind how many flows.
void EdgeBuilder::FindReceivers(absl::Span<const uint32_t> order, bool forward) {
  for (std::vector<uint32_t>& parts : receivers_) parts.clear();
  std::fill(flows_to_.begin(), flows_to_.end(), 0);
  const absl::Span<const EdgeMessage> messages = messages_.all();
  for (size_t i = 0; i < order.size(); ++i) {
    const EdgeMessage& m = messages[order[i]];
    const auto nodes = m.Nodes(forward);
    if (i == 0 || messages[order[i - 1]].Nodes(forward) != nodes) ++flows_to_[nodes.second];
    std::vector<uint32_t>& parts = receivers_[nodes.second];
    if (forward) {
      parts.insert(parts.end(), m.consumers.begin(), m.consumers.end());
    } else {
      parts.push_back(m.producer);
    }
  }
}

// One direction: a task a sending node, in it a flow a receiving node.
void EdgeBuilder::AddTransfers(absl::Span<const uint32_t> from_devices, bool forward,
                               size_t senders) {
  Direction& direction = forward ? forward_ : backward_;
  OpenTasks& tasks = direction.tasks;
  seen_by_sender_.resize(std::max(seen_by_sender_.size(), senders));
  const absl::Span<const uint32_t> order = messages_.ByNodes(forward);
  const absl::Span<const EdgeMessage> messages = messages_.all();
  const auto nodes_of = [&](uint32_t i) { return messages[i].Nodes(forward); };
  FindReceivers(order, forward);
  AddJoins(&direction);
  uint32_t task_stamp = 0;
  for (size_t begin = 0; begin < order.size();) {
    const auto nodes = nodes_of(order[begin]);
    if (begin == 0 || flows_->cuts_flows() || nodes_of(order[begin - 1]).first != nodes.first) {
      const auto at = static_cast<uint32_t>(tasks.flows.size());
      tasks.tasks.push_back({.flows_begin = at, .flows_end = at});
      task_stamp = ++stamp_;
    }
    const auto task = static_cast<uint32_t>(tasks.tasks.size()) - 1;
    const auto send = [&](uint32_t part) {
      if (seen_by_sender_[part] == task_stamp) return;
      seen_by_sender_[part] = task_stamp;
      pairs_.emplace_back(part, task | kIsTask);
      ++tasks.tasks[task].waits;
    };
    for (; begin < order.size() && nodes_of(order[begin]) == nodes; ++begin) {
      const EdgeMessage& m = messages[order[begin]];
      const uint32_t from = from_devices[m.producer];
      flows_->AddMessage(forward ? machine_->Path(from, m.device) : machine_->Path(m.device, from),
                         m.bytes);
      bytes_ += m.bytes;
      if (forward) {
        send(m.producer);
      } else {
        for (uint32_t consumer : m.consumers) send(consumer);
      }
    }
    flows_->EndFlow(receivers_[nodes.second], &tasks);
  }
}

// Pairs of parts on one device that meet, each once.
void EdgeBuilder::FindLocal(absl::Span<const std::vector<Overlap>* const> overlaps,
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

void EdgeBuilder::Build(absl::Span<const std::vector<Overlap>* const> overlaps,
                        absl::Span<const uint32_t> from_devices,
                        absl::Span<const uint32_t> to_devices, bool gradient, EdgeBlock* block) {
  const size_t producers = from_devices.size(), consumers = to_devices.size();
  forward_.tasks.Clear();
  backward_.tasks.Clear();
  received_.clear();
  bytes_ = 0;
  forward_.waits.assign(consumers, 0);
  backward_.waits.assign(producers, 0);
  messages_.Find(overlaps, from_devices, to_devices);
  for (const EdgeMessage& message : messages_.all()) {
    received_.push_back({message.device, message.bytes});
  }
  FindLocal(overlaps, from_devices, to_devices);
  block->one_to_one =
      messages_.all().empty() && gradient && local_.size() == producers && producers == consumers &&
      std::all_of(local_.begin(), local_.end(), [](const auto& p) { return p.first == p.second; });
  pairs_ = local_;
  for (const auto& [producer, consumer] : local_) ++forward_.waits[consumer];
  AddTransfers(from_devices, true, producers);
  ListByPart(static_cast<uint32_t>(producers), pairs_, &forward_.to);
  pairs_.clear();
  if (gradient) {
    for (const auto& [producer, consumer] : local_) {
      pairs_.emplace_back(consumer, producer);
      ++backward_.waits[producer];
    }
    AddTransfers(from_devices, false, consumers);
  }
  ListByPart(static_cast<uint32_t>(consumers), pairs_, &backward_.to);
  const OpenTasks* const both[] = {&forward_.tasks, &backward_.tasks};
  flows_->SumLoads(both, &loads_);
  Pack(block);
}

void EdgeBuilder::Pack(EdgeBlock* block) const {
  BlockMemory& memory = block->memory;
  memory.Reset(forward_.tasks.bytes() + backward_.tasks.bytes() +
               BlockMemory::BytesFor(forward_.to) + BlockMemory::BytesFor(backward_.to) +
               BlockMemory::BytesFor(forward_.waits) + BlockMemory::BytesFor(backward_.waits) +
               BlockMemory::BytesFor(loads_) + BlockMemory::BytesFor(received_));
  block->forward_to.all = memory.Add(forward_.to).begin();
  block->forward = forward_.tasks.PackInto(&memory);
  block->backward_to.all = memory.Add(backward_.to).begin();
  block->backward = backward_.tasks.PackInto(&memory);
  block->forward_waits = memory.Add(forward_.waits);
  block->backward_waits = memory.Add(backward_.waits);
  block->loads = memory.Add(loads_);
  block->received = memory.Add(received_);
  block->bytes = bytes_;
}

}  // namespace soapstone::planner
