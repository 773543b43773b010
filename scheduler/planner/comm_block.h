// Communication as tasks: the transfers of an edge between two operators' parts, and the
// synchronization of a weight group. A block holds all of one edge or group; it depends on the
// configurations at its ends alone, so that a search keeps it and looks it up. Used by the
// simulator.
//
// A transfer passes the links of its path one after another, each a queue of its own (hops). A hop
// may start when the one before it has started and the link's latency is over, and ends no earlier
// than that one's end and latency: a message streams through, and two links of one bandwidth take
// the time of one.
//
// Fair sharing: a transfer may be cut into segments of at most segment_bytes. A segment becomes
// ready at the first link when the one before it has left that link, hence behind the others that
// wait there: messages take turns by segments. Against ideal processor sharing: where n messages
// are ready on a link at one time, each ends within n − 1 times the longest segment's time of its
// ideal end; with per-message time m each segment costs m, by which it may end later still.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/machine.h"
#include "scheduler/planner/split.h"
#include "scheduler/planner/strategy.h"

namespace soapstone::planner {

// Queues: devices, then links, then servers.
inline constexpr uint32_t kNoResource = UINT32_MAX;  // waits for nothing but what comes before it

struct CommTask {
  Nanos busy = 1;  // at least 1
  uint32_t resource = kNoResource;
  uint32_t latency = 0;  // from here to the next hop, or to what waits for the delivery
  int32_t next_hop = -1, next_segment = -1;
  uint32_t done_begin = 0, done_end = 0;  // of the last hop: who waits, in CommTasks::done
};

struct CommTasks {
  std::vector<CommTask> tasks;
  std::vector<uint32_t> waits;  // [task] how many must be over before it; 0: a hop's or segment's
  std::vector<uint32_t> done;   // of edges: parts; of groups: tasks of this block
  void Clear();
};

// What a block adds to the load of a queue.
struct Load {
  uint32_t resource = 0;
  Nanos busy = 0;
};

// Lists by part, in one array.
struct PartLists {
  std::vector<uint32_t> begin;  // parts + 1
  std::vector<uint32_t> items;
  absl::Span<const uint32_t> of(uint32_t part) const {
    return {items.data() + begin[part], begin[part + 1] - begin[part]};
  }
};

// An item of EdgeBlock's lists: a part of the other end on the same device, or a task of the block.
inline constexpr uint32_t kIsTask = uint32_t{1} << 31;

struct EdgeBlock {
  CommTasks forward, backward;
  // Whom a producer's part sets free forward, whom a consumer's part backward: a part, or the first
  // hop of a message. And for whom each waits: a part, or the last hop of one.
  PartLists forward_to, backward_to, forward_from, backward_from;
  std::vector<Load> loads;                             // of links, both directions
  std::vector<std::pair<uint32_t, int64_t>> received;  // device, bytes kept there until backward
  int64_t bytes = 0;                                   // of all messages, both directions
};

// Finds blocks; keeps its scratch memory between calls.
class BlockBuilder {
 public:
  struct Options {
    int64_t segment_bytes = 0;  // 0: messages are whole
  };
  BlockBuilder(const Machine* machine, Options options);

  uint32_t resources() const { return resources_; }
  uint32_t LinkResource(uint32_t link) const { return devices_ + link; }
  uint32_t ServerResource(uint32_t server) const { return devices_ + links_ + server; }

  // A transfer a (producer's part, device, region): consumers there share it; their gradients are
  // summed there and one transfer takes them back. Partial sums of reduction splits are of
  // different parts, and each is sent.
  void BuildEdge(const std::vector<Overlap>& overlaps, absl::Span<const uint32_t> from_devices,
                 absl::Span<const uint32_t> to_devices, bool gradient, EdgeBlock* block);

  // Appends a message of so many bytes; its last task sets `done` free. Returns the first task, of
  // which `waits` is to be set; *last is the last.
  uint32_t AddMessage(absl::Span<const uint32_t> path, int64_t bytes,
                      absl::Span<const uint32_t> done, CommTasks* to, uint32_t* last);
  Nanos BusyOf(uint32_t link, int64_t bytes) const;
  // Adds up the loads of tasks, by resource ascending.
  void SumLoads(absl::Span<const CommTasks* const> blocks, std::vector<Load>* loads);

 private:
  void FindMessages(const std::vector<Overlap>& overlaps, absl::Span<const uint32_t> from_devices,
                    absl::Span<const uint32_t> to_devices);
  void AddMessages(absl::Span<const uint32_t> from_devices, bool gradient, EdgeBlock* block);
  void WriteLists(const std::vector<Overlap>& overlaps, uint32_t producers, uint32_t consumers,
                  bool gradient, EdgeBlock* block) const;

  const Machine* machine_;
  Options options_;
  uint32_t devices_, links_, resources_;
  std::vector<double> ns_per_byte_;  // by link
  std::vector<Nanos> sums_;          // by resource
  std::vector<uint32_t> touched_;
  std::vector<int32_t> message_at_;  // [region · devices + device]
  struct Message {
    uint32_t producer, device, consumer;
    int64_t bytes;
    uint32_t first, last;  // forward tasks
    uint32_t back_first, back_last;
    std::vector<uint32_t> consumers;
  };
  std::vector<Message> messages_;
  size_t message_count_ = 0;
  std::vector<int32_t> message_of_overlap_;
};

}  // namespace soapstone::planner
