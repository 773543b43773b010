#include "scheduler/planner/comm_block.h"

#include <algorithm>

namespace soapstone::planner {
namespace {

// Lists of `key`'s values: items in the order in which they come.
template <typename KeyOf, typename ItemOf>
void FillLists(size_t count, uint32_t parts, KeyOf key_of, ItemOf item_of, PartLists* lists) {
  lists->begin.assign(parts + 1, 0);
  for (size_t i = 0; i < count; ++i) {
    if (item_of(i) >= 0) ++lists->begin[key_of(i) + 1];
  }
  for (uint32_t p = 0; p < parts; ++p) lists->begin[p + 1] += lists->begin[p];
  lists->items.resize(lists->begin[parts]);
  for (size_t i = 0; i < count; ++i) {
    const int64_t item = item_of(i);
    if (item >= 0) lists->items[lists->begin[key_of(i)]++] = static_cast<uint32_t>(item);
  }
  for (uint32_t p = parts; p > 0; --p) lists->begin[p] = lists->begin[p - 1];
  lists->begin[0] = 0;
}

}  // namespace

void CommTasks::Clear() {
  tasks.clear();
  waits.clear();
  done.clear();
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
}

Nanos BlockBuilder::BusyOf(uint32_t link, int64_t bytes) const {
  const auto streamed = static_cast<Nanos>(static_cast<double>(bytes) * ns_per_byte_[link]);
  return std::max<Nanos>(1, machine_->links()[link].message_ns + streamed);
}

uint32_t BlockBuilder::AddMessage(absl::Span<const uint32_t> path, int64_t bytes,
                                  absl::Span<const uint32_t> done, CommTasks* to, uint32_t* last) {
  const auto first = static_cast<uint32_t>(to->tasks.size());
  const auto done_begin = static_cast<uint32_t>(to->done.size());
  to->done.insert(to->done.end(), done.begin(), done.end());
  const auto hops = static_cast<uint32_t>(std::max<size_t>(path.size(), 1));
  const int64_t segment =
      options_.segment_bytes > 0 ? std::min(options_.segment_bytes, bytes) : bytes;
  const int64_t segments = segment > 0 ? (bytes + segment - 1) / segment : 1;
  for (int64_t s = 0; s < segments; ++s) {
    const int64_t size = std::min(segment, bytes - s * segment);
    for (uint32_t h = 0; h < hops; ++h) {
      CommTask task;
      const auto at = static_cast<int32_t>(to->tasks.size());
      if (!path.empty()) {
        const Link& link = machine_->links()[path[h]];
        task.resource = LinkResource(path[h]);
        task.busy = BusyOf(path[h], size);
        // At least 1: what follows is ready after what it follows (see simulator.h).
        task.latency = static_cast<uint32_t>(std::clamp<Nanos>(link.latency_ns, 1, INT32_MAX));
      }
      if (h + 1 < hops) task.next_hop = at + 1;
      if (h == 0 && s + 1 < segments) task.next_segment = at + static_cast<int32_t>(hops);
      to->tasks.push_back(task);
      to->waits.push_back(0);
    }
  }
  *last = static_cast<uint32_t>(to->tasks.size()) - 1;
  to->tasks[*last].done_begin = done_begin;
  to->tasks[*last].done_end = static_cast<uint32_t>(to->done.size());
  return first;
}

void BlockBuilder::SumLoads(absl::Span<const CommTasks* const> blocks, std::vector<Load>* loads) {
  touched_.clear();
  for (const CommTasks* block : blocks) {
    for (const CommTask& task : block->tasks) {
      if (task.resource == kNoResource) continue;
      if (sums_[task.resource] == 0) touched_.push_back(task.resource);
      sums_[task.resource] += task.busy;
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
  message_count_ = 0;
  message_of_overlap_.assign(overlaps.size(), -1);
  // Overlaps of one producer are neighbours: the table is cleared after each.
  for (size_t begin = 0; begin < overlaps.size();) {
    size_t end = begin;
    const uint32_t producer = overlaps[begin].producer;
    for (; end < overlaps.size() && overlaps[end].producer == producer; ++end) {
      const Overlap& overlap = overlaps[end];
      const uint32_t device = to_devices[overlap.consumer];
      if (device == from_devices[producer]) continue;
      const size_t key = size_t{overlap.region} * devices_ + device;
      if (key >= message_at_.size()) message_at_.resize(key + 1, -1);
      if (message_at_[key] < 0) {
        message_at_[key] = static_cast<int32_t>(message_count_);
        if (message_count_ == messages_.size()) messages_.emplace_back();
        Message& message = messages_[message_count_++];
        message.producer = producer;
        message.device = device;
        message.bytes = overlap.bytes;
        message.consumers.clear();
      }
      message_of_overlap_[end] = message_at_[key];
      messages_[static_cast<size_t>(message_at_[key])].consumers.push_back(overlap.consumer);
    }
    for (size_t i = begin; i < end; ++i) {
      const size_t key = size_t{overlaps[i].region} * devices_ + to_devices[overlaps[i].consumer];
      if (key < message_at_.size()) message_at_[key] = -1;
    }
    begin = end;
  }
}

void BlockBuilder::AddMessages(absl::Span<const uint32_t> from_devices, bool gradient,
                               EdgeBlock* block) {
  for (size_t i = 0; i < message_count_; ++i) {
    Message& m = messages_[i];
    const uint32_t from = from_devices[m.producer];
    m.first =
        AddMessage(machine_->Path(from, m.device), m.bytes, m.consumers, &block->forward, &m.last);
    block->forward.waits[m.first] = 1;
    block->bytes += m.bytes;
    block->received.emplace_back(m.device, m.bytes);
    if (!gradient) continue;
    m.back_first = AddMessage(machine_->Path(m.device, from), m.bytes, {&m.producer, 1},
                              &block->backward, &m.back_last);
    block->backward.waits[m.back_first] = static_cast<uint32_t>(m.consumers.size());
    block->bytes += m.bytes;
  }
}

void BlockBuilder::WriteLists(const std::vector<Overlap>& overlaps, uint32_t producers,
                              uint32_t consumers, bool gradient, EdgeBlock* block) const {
  const auto producer_of = [&](size_t i) { return overlaps[i].producer; };
  const auto consumer_of = [&](size_t i) { return overlaps[i].consumer; };
  const auto message_of = [&](size_t i) -> const Message* {
    const int32_t at = message_of_overlap_[i];
    return at < 0 ? nullptr : &messages_[static_cast<size_t>(at)];
  };
  // A message stands in its producer's list once, in each of its consumers' lists once.
  const auto is_first = [&](size_t i, const Message* m) {
    return m->consumers.front() == overlaps[i].consumer;
  };
  const auto task = [](uint32_t at) { return int64_t{at | kIsTask}; };
  FillLists(
      overlaps.size(), producers, producer_of,
      [&](size_t i) -> int64_t {
        const Message* m = message_of(i);
        if (m == nullptr) return consumer_of(i);
        return is_first(i, m) ? task(m->first) : -1;
      },
      &block->forward_to);
  FillLists(
      overlaps.size(), consumers, consumer_of,
      [&](size_t i) -> int64_t {
        const Message* m = message_of(i);
        return m == nullptr ? int64_t{producer_of(i)} : task(m->last);
      },
      &block->forward_from);
  const size_t back = gradient ? overlaps.size() : 0;
  FillLists(
      back, consumers, consumer_of,
      [&](size_t i) -> int64_t {
        const Message* m = message_of(i);
        return m == nullptr ? int64_t{producer_of(i)} : task(m->back_first);
      },
      &block->backward_to);
  FillLists(
      back, producers, producer_of,
      [&](size_t i) -> int64_t {
        const Message* m = message_of(i);
        if (m == nullptr) return consumer_of(i);
        return is_first(i, m) ? task(m->back_last) : -1;
      },
      &block->backward_from);
}

void BlockBuilder::BuildEdge(const std::vector<Overlap>& overlaps,
                             absl::Span<const uint32_t> from_devices,
                             absl::Span<const uint32_t> to_devices, bool gradient,
                             EdgeBlock* block) {
  block->forward.Clear();
  block->backward.Clear();
  block->received.clear();
  block->bytes = 0;
  FindMessages(overlaps, from_devices, to_devices);
  AddMessages(from_devices, gradient, block);
  WriteLists(overlaps, static_cast<uint32_t>(from_devices.size()),
             static_cast<uint32_t>(to_devices.size()), gradient, block);
  const CommTasks* const both[] = {&block->forward, &block->backward};
  SumLoads(both, &block->loads);
}

}  // namespace soapstone::planner
