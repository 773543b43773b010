#include "scheduler/planner/blocks/edge_messages.h"

#include <algorithm>
#include <numeric>

namespace soapstone::planner {

EdgeMessages::EdgeMessages(const Machine* machine) : machine_(machine) {
  for (const Device& device : machine->devices()) nodes_ = std::max(nodes_, device.node + 1);
}

void EdgeMessages::Find(absl::Span<const std::vector<Overlap>* const> overlaps,
                        absl::Span<const uint32_t> from_devices,
                        absl::Span<const uint32_t> to_devices) {
  count_ = 0;
  for (const std::vector<Overlap>* of_edge : overlaps) FindOf(*of_edge, from_devices, to_devices);
}

void EdgeMessages::FindOf(const std::vector<Overlap>& overlaps,
                          absl::Span<const uint32_t> from_devices,
                          absl::Span<const uint32_t> to_devices) {
  const size_t devices = machine_->devices().size();
  // Overlaps of one producer are neighbours: the table is cleared after each.
  for (size_t begin = 0; begin < overlaps.size();) {
    const size_t first_message = count_;
    size_t end = begin;
    const uint32_t producer = overlaps[begin].producer;
    const uint32_t from = from_devices[producer];
    for (; end < overlaps.size() && overlaps[end].producer == producer; ++end) {
      const Overlap& overlap = overlaps[end];
      const uint32_t device = to_devices[overlap.consumer];
      if (device == from) continue;
      const size_t key = size_t{overlap.region} * devices + device;
      if (key >= message_at_.size()) message_at_.resize(key + 1, -1);
      if (message_at_[key] < 0) {
        message_at_[key] = static_cast<int32_t>(count_);
        if (count_ == messages_.size()) messages_.emplace_back();
        EdgeMessage& message = messages_[count_++];
        message.producer = producer;
        message.device = device;
        message.bytes = overlap.bytes;
        message.from_node = machine_->devices()[from].node;
        message.to_node = machine_->devices()[device].node;
        message.consumers.clear();
      }
      messages_[static_cast<size_t>(message_at_[key])].consumers.push_back(overlap.consumer);
    }
    if (count_ > first_message) {
      for (size_t i = begin; i < end; ++i) {
        const size_t key = size_t{overlaps[i].region} * devices + to_devices[overlaps[i].consumer];
        if (key < message_at_.size()) message_at_[key] = -1;
      }
    }
    begin = end;
  }
}

// By counting, first by the receiving node.
absl::Span<const uint32_t> EdgeMessages::ByNodes(bool forward) {
  order_.resize(count_);
  unordered_.resize(count_);
  std::iota(order_.begin(), order_.end(), 0);
  for (const bool by_sender : {false, true}) {
    const auto node_of = [&](uint32_t i) {
      const auto [sender, receiver] = messages_[i].Nodes(forward);
      return by_sender ? sender : receiver;
    };
    places_.assign(nodes_ + 1, 0);
    for (uint32_t i : order_) ++places_[node_of(i) + 1];
    std::partial_sum(places_.begin(), places_.end(), places_.begin());
    order_.swap(unordered_);
    for (uint32_t i : unordered_) order_[places_[node_of(i)]++] = i;
  }
  return order_;
}

}  // namespace soapstone::planner
