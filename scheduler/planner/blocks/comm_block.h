// Communication as tasks: the transfers of an edge between two operators' parts, and the
// synchronization of a parameter group. A block holds all of one edge or group; it depends on the
// configurations at its ends alone, so that a search keeps it and looks it up. Used by the
// simulator.
//
// A task is what the devices of one node send for an edge or group, together, as a collective
// operation is: it may begin when all of them have what they send. It consists of flows, one to
// each node that it sends to (its own among them), and a flow of what it needs of each link. With r
// the time at which the task may begin, o(l) the latencies before link l, b(l) how long the flow
// occupies it, q(l) the latencies from there to the end, and f(l) when the link is free:
//   s(l) = max(r + o(l), f(l)),   f'(l) = s(l) + b(l),   delivered = max over l of f'(l) + q(l)
// A message streams through its links: two of one bandwidth take the time of one. Links serve tasks
// in the order in which these may begin. An application of gradients is a task of one flow, which
// occupies a device or a server. The parts on a node wait for all that flows to it.
//
// Fair sharing: a flow may be cut into segments of at most segment_bytes, each a task. A segment
// may begin when the one before it has left their first link, hence behind the others that wait
// there: flows take turns by segments. Against ideal processor sharing: where n flows are ready on
// a link at one time, each ends within n − 1 times the longest segment's time of its ideal end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/blocks/op_split.h"
#include "strategy/machine.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

// Some of a block's memory.
template <typename T>
class Array {
 public:
  Array() = default;
  Array(const T* data, size_t size) : data_(data), size_(size) {}
  const T& operator[](size_t i) const { return data_[i]; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  size_t size() const { return size_; }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

// What a block consists of, in one piece: a run meets all of it together, and a search makes blocks
// by the million.
class BlockMemory {
 public:
  // What an array takes of it.
  template <typename T>
  static size_t BytesFor(const std::vector<T>& array) {
    static_assert(alignof(T) <= kAlignment);
    return (array.size() * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }
  // Forgets what is in it, and makes room for so many bytes.
  void Reset(size_t bytes);
  // REQUIRES room
  template <typename T>
  Array<T> Add(const std::vector<T>& array) {
    T* const at = reinterpret_cast<T*>(memory_.get() + used_);
    std::uninitialized_copy(array.begin(), array.end(), at);
    used_ += BytesFor(array);
    return {at, array.size()};
  }
  size_t bytes() const { return size_; }

 private:
  static constexpr size_t kAlignment = 8;
  std::unique_ptr<std::byte[]> memory_;
  size_t size_ = 0, used_ = 0;
};

// What a flow needs of a queue. Queues: devices, then links, then servers.
struct LinkUse {
  uint32_t resource = 0;
  uint32_t offset = 0, rest = 0;  // ns: latencies before it; from it to the delivery
  Nanos busy = 1;                 // at least 1
};

struct Flow {
  uint32_t uses_begin = 0, uses_end = 0;
  uint32_t done_begin = 0, done_end = 0;  // who waits for its delivery, in CommTasks::done
};

struct CommTask {
  uint32_t flows_begin = 0, flows_end = 0;
  uint32_t waits = 0;  // how many must be over before it; 0: a segment, which has one before
  int32_t next_segment = -1;
};

// Where the flows to one node meet: who waits for all of them hears of them once.
struct JoinNode {
  uint32_t waits = 0;
  uint32_t done_begin = 0, done_end = 0;
};

// In CommTasks::done of a flow: a join.
inline constexpr uint32_t kIsJoin = uint32_t{1} << 31;

struct CommTasks {
  Array<CommTask> tasks;
  Array<JoinNode> joins;  // their slots are behind the tasks'
  Array<Flow> flows;
  Array<LinkUse> uses;
  Array<uint32_t> done;  // of edges: parts; of groups: tasks of this block
  size_t slots() const { return tasks.size() + joins.size(); }
};

// The same while they are made.
struct OpenTasks {
  std::vector<CommTask> tasks;
  std::vector<JoinNode> joins;
  std::vector<Flow> flows;
  std::vector<LinkUse> uses;
  std::vector<uint32_t> done;
  void Clear();
  size_t bytes() const;
  CommTasks PackInto(BlockMemory* memory) const;
};

// What a block adds to the load of a queue.
struct Load {
  uint32_t resource = 0;
  Nanos busy = 0;
};

struct DeviceBytes {
  uint32_t device = 0;
  int64_t bytes = 0;
};

// Lists by part (or device), in one array: where each part's begins and the end, then the items.
struct PartLists {
  const uint32_t* all = nullptr;
  absl::Span<const uint32_t> of(uint32_t part) const {
    return {all + all[part], all[part + 1] - all[part]};
  }
};

// items: (part, item), in the order in which items shall stand in their lists.
void ListByPart(uint32_t parts, absl::Span<const std::pair<uint32_t, uint32_t>> items,
                std::vector<uint32_t>* all);

// An item of EdgeBlock's lists: a part of the other end on the same device, or a task of the block.
inline constexpr uint32_t kIsTask = uint32_t{1} << 31;

struct EdgeBlock {
  // Each part sets free the part of its number at the other end, either way, and nothing else.
  bool one_to_one = false;
  CommTasks forward, backward;
  // Whom a producer's part sets free forward, whom a consumer's part backward.
  PartLists forward_to, backward_to;
  // For how many a consumer's part waits forward, a producer's backward.
  Array<uint32_t> forward_waits, backward_waits;
  Array<Load> loads;            // of links, both directions
  Array<DeviceBytes> received;  // kept there until backward
  int64_t bytes = 0;            // of all messages, both directions
  BlockMemory memory;           // of all of these
};

}  // namespace soapstone::planner
