// Ring: the last events of one thread, in memory that another process may read meanwhile. What is
// written is there even when the process is killed. Who calls: the shells of workers and servers.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/ids.h"

namespace soapstone::timeline {

// What a thread did. The numbers stand in files: new ones come last.
enum class EventKind : uint32_t {
  kNone = 0,
  // Of a worker's loop.
  kStep = 1,  // clock `clock`, from the end of the one before
  kPush = 2,  // handed to the transport; `with`: the shard
  kPull = 3,  // from its sending to its answer; `with`: the shard
  // Of a worker's device; of passes `with` is the operator.
  kForward = 4,
  kBackward = 5,
  kKeys = 6,
  kLoad = 7,
  kCollect = 8,
  kUpdate = 9,
  kElastic = 10,
  kDelta = 11,
  kEvaluate = 12,
  // Of a shard; `with`: the worker.
  kApply = 13,       // took a push in hand
  kCompletion = 14,  // took the word that a clock is complete
  kRead = 15,        // took a pull in hand
  kAnswer = 16,      // from its first look at a pull to the answer
  // Of the device of a seat in a team; kForward and kBackward are halves, `with` the part.
  kBatch = 17,  // read its samples
  kTake = 18,   // put what another seat sent where its parts read it; `with`: the block
  kGive = 19,   // handed over what another seat reads; `with`: the block
  kRest = 20,   // as a straggler model, or a base time, asked
  // Of a seat's loop.
  kBlock = 21,  // handed to the transport; `with`: the block
};
inline constexpr uint32_t kKinds = 22;

// Times are of the steady clock of its machine.
struct Event {
  Nanos begin_ns = 0;
  Nanos end_ns = 0;
  Clock clock = 0;
  uint64_t flow = 0;  // the same of a push and its apply, of a block's kGive and kTake; 0: none
  EventKind kind = EventKind::kNone;
  uint32_t with = 0;
  uint32_t parked_us = 0;  // of kPull: parts of it
  uint32_t queued_us = 0;
  friend bool operator==(const Event&, const Event&) = default;
};
static_assert(sizeof(Event) == 48);

// Invariants
//  1. `written` counts events ever written; event i lies in slot i % capacity.
//  2. An event is in its slot before `written` says so.
// So a reader that takes slots between two looks at `written` has whole events, of those that were
// not overtaken (ReadRing). One thread writes; any process may read. The memory outlives it.
class Ring {
 public:
  // REQUIRES: slots is not empty.
  Ring(std::span<Event> slots, uint64_t* written) : slots_(slots), written_(written) {}

  void Write(const Event& event) {
    const uint64_t at = next_++;
    std::memcpy(&slots_[at % slots_.size()], &event, sizeof(event));
    std::atomic_ref<uint64_t>(*written_).store(next_, std::memory_order_release);
  }

 private:
  std::span<Event> slots_;
  uint64_t* written_;
  uint64_t next_ = 0;
};

// Slots that a reader takes for ones that the writer has in hand: of so many more than events are
// ever written none is lost.
inline constexpr uint64_t kInHand = 16;

// Which events a copy of the slots holds whole, that was taken between `before` and `after` of
// `written`. The slots beside the newest may be in the writer's hand.
struct WholeEvents {
  uint64_t begin = 0, end = 0;  // indexes [begin, end) of Ring's; before `begin` they are lost
};
inline WholeEvents WholeEventsOf(uint64_t before, uint64_t after, uint64_t capacity) {
  const uint64_t begin = after + kInHand > capacity ? after + kInHand - capacity : 0;
  if (after < before) return {before, before};  // no such writer
  return {begin < before ? begin : before, before};
}

}  // namespace soapstone::timeline
