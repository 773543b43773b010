// EdgeMessages: the messages of a connection between two operators: what parts of the producer send
// to which devices of the consumer. A message a (producer's part, device, region): consumers there
// share it; their gradients are summed there and one message takes them back. Partial sums of
// reduction splits are of different parts, and each is sent. Called by EdgeBuilder.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/blocks/op_split.h"
#include "strategy/machine.h"

namespace soapstone::planner {

struct EdgeMessage {
  uint32_t producer = 0, device = 0;  // a part; where its consumers are
  int64_t bytes = 0;
  uint32_t from_node = 0, to_node = 0;
  std::vector<uint32_t> consumers;  // parts
  // (sending, receiving node): forward, and of the gradient back.
  std::pair<uint32_t, uint32_t> Nodes(bool forward) const {
    return forward ? std::pair(from_node, to_node) : std::pair(to_node, from_node);
  }
};

// Invariants:
//  1. No message stays on its device.
//  2. ByNodes is a stable order: messages of the same two nodes are in that in which they were
//     found.
// Keeps its memory between calls. Not to be shared between threads.
class EdgeMessages {
 public:
  // Keeps the pointer, which must outlive it.
  explicit EdgeMessages(const Machine* machine);

  // Finds them anew. overlaps: of each edge between the two operators.
  void Find(absl::Span<const std::vector<Overlap>* const> overlaps,
            absl::Span<const uint32_t> from_devices, absl::Span<const uint32_t> to_devices);
  absl::Span<const EdgeMessage> all() const { return {messages_.data(), count_}; }
  // Into all(), by (sending, receiving node). Valid until the next call.
  absl::Span<const uint32_t> ByNodes(bool forward);

  uint32_t nodes() const { return nodes_; }  // of the machine

 private:
  void FindOf(const std::vector<Overlap>& overlaps, absl::Span<const uint32_t> from_devices,
              absl::Span<const uint32_t> to_devices);

  const Machine* machine_;
  uint32_t nodes_ = 0;
  std::vector<int32_t> message_at_;    // [region · devices + device]; −1 between calls
  std::vector<EdgeMessage> messages_;  // the first count_
  size_t count_ = 0;
  std::vector<uint32_t> order_, unordered_, places_;  // memory of ByNodes
};

}  // namespace soapstone::planner
