// SharedChannel: one end of a link between two processes of a machine: a ring of messages each way,
// and a ring of leases each way. A message's payload stays where it is, in a segment of its sender
// (base/memory/shared_arena.h), and is lent: the receiver maps the segment, reads it there, and
// gives the lease back when the last view of the payload has died. What is small, or lies
// elsewhere, is copied: into the record, or into a block of the arena.
//
// A record: RecordHead, FrameRef for each payload frame, the message's header, and the inline
// frames, each part rounded up to 8 bytes.
//
// Invariants
//  1. A block that is lent is not used again before its lease has come back, or the link is closed.
//  2. Of what is lent at most `unread_bytes_max` bytes, or one message, have not been read by the
//     other side. What it has read and keeps does not count: it may let go of that only after what
//     it is sent next, as who gathers gradients does, and a bound on it would wait for itself. At
//     most kLeasesMax messages are lent; beyond kHeldMax that the receiver keeps it copies what
//     comes, so that nobody waits for those either.
//  3. Whatever the other side writes, nothing outside the mapped memory is read, and its segments
//     cannot shrink: SharedArena::IsSealed.
//  4. What the other side had given back when it sent a message is free before that message is
//     received: a gradient's block before the values that it went into.
// One thread calls it; leases come back from any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/memory/buffer.h"
#include "base/memory/page_block.h"
#include "base/memory/recycling.h"
#include "base/memory/shared_arena.h"
#include "base/mutex.h"
#include "transport/shm/shared_ring.h"

namespace soapstone::transport {

class SharedChannel {
 public:
  static constexpr size_t kRingBytes = size_t{1} << 20;
  static constexpr size_t kLeasesMax = 4096;
  static constexpr uint64_t kUnreadBytesMax = uint64_t{512} << 20;
  static constexpr size_t kHeldMax = kLeasesMax / 4 * 3;
  static constexpr size_t kInlineMax = 8192;  // of a message's frames together
  static constexpr size_t kFramesMax = 65'536;
  static constexpr size_t kSegmentsMax = 4096;  // of the other side

  // The memory of a new link, as MakeSealed; its size. -1: none to be had.
  static int MakeMemory();
  static size_t MemoryBytes();

  // Maps the memory `fd` (which stays the caller's). `first`: the side that made it. `show` hands a
  // segment's descriptor to the other side before a message mentions it; false: that failed.
  static absl::StatusOr<std::unique_ptr<SharedChannel>> Map(
      int fd, bool first, std::function<bool(const SharedArena::Segment&)> show,
      uint64_t unread_bytes_max = kUnreadBytesMax);
  ~SharedChannel();

  // True once, for one side: who made the memory claims it to withdraw it, who was sent it to take
  // it, so that what was put into it goes one way alone. It holds zeros at first.
  bool Claim();

  // Puts a message into the ring. `*ring`: the reader sleeps and must be told. Errors:
  // ResourceExhausted (invariant 2, or the ring has no room), Unavailable (the link is broken).
  absl::Status Send(std::string_view header, absl::Span<const Buffer> payload, bool* ring);
  // The latest Send failed since this process can have no more shared memory.
  bool starved() const { return starved_; }

  // The next message: frames[0] is its header, which lasts until the next call. False: none. Where
  // the other side broke the rules, broken() is true then.
  bool Receive(Buffers* frames);
  // The other side's segment, to be mapped. False: it is none that one could map.
  bool AddSegment(uint64_t id, size_t size, int fd);
  // A message mentions a segment that is not there yet: AddSegment has to come before Receive.
  bool wants_segment() const { return wants_segment_; }

  // Shows all segments again that messages mention: it may not have been seen when they were shown.
  bool ShowAgain();

  // What is lent now stays as it is until this process ends: the other side may read it for as long
  // as it likes, and leases are not heard of any more.
  void Abandon();

  bool readable() const { return in_.readable(); }
  bool PrepareToSleep() { return in_.PrepareToSleep(); }
  void Woke() { in_.Woke(); }
  // Lent, and not read by the other side when the latest Send looked.
  uint64_t unread_bytes() const { return unread_bytes_; }
  // As SharedRing::writer_cpu, of the other side.
  int other_cpu() const { return in_.writer_cpu(); }
  bool broken() const { return broken_ || in_.broken() || out_.broken(); }

 private:
  struct Inward;  // what leases keep alive: the mappings, and the ring they are given back by
  class Lease;
  struct RecordHead;
  // Where a frame lies: in a segment, or, where that is 0, in the record.
  struct FrameRef {
    uint64_t segment = 0;
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  struct Lent {
    Buffers payload;
    bool used = false;
  };
  // A record of out_ whose message is lent.
  struct Unread {
    uint64_t end = 0;  // of the record, as SharedRing::published
    uint64_t bytes = 0;
  };

  SharedChannel(std::shared_ptr<PageBlock> memory, bool first,
                std::function<bool(const SharedArena::Segment&)> show, uint64_t unread_bytes_max);
  void TakeLeasesBack();
  bool HasRoom(uint64_t lent_bytes);
  absl::StatusOr<FrameRef> RefTo(Buffer* frame);
  // The body of a record: where its frames lie, the header, and the frames that lie there.
  static void WriteBody(absl::Span<const FrameRef> refs, std::string_view header,
                        absl::Span<const Buffer> payload, char* at);
  bool TakeIndirect(absl::Span<const std::byte> record, Buffer* body);
  bool Parse(absl::Span<const std::byte> record, Buffers* frames);
  const std::byte* At(const FrameRef& ref);

  const uint64_t unread_bytes_max_;
  std::shared_ptr<PageBlock> memory_;
  SharedRing out_, in_;
  SharedRing leases_back_;  // the other side writes: what we lent
  std::function<bool(const SharedArena::Segment&)> show_;
  std::shared_ptr<Inward> inward_;
  std::vector<Lent> lent_;        // by lease - 1
  std::vector<uint32_t> unlent_;  // free indices of lent_
  std::deque<Unread, RecyclingAllocator<Unread>> unread_;
  uint64_t unread_bytes_ = 0;
  std::vector<const SharedArena::Segment*> shown_;  // by segment id; null: not shown
  BufferPool pool_;                                 // of frames that are copied
  std::vector<FrameRef> refs_;                      // scratch of Parse
  std::string header_;                              // of the latest message
  bool wants_segment_ = false;
  bool broken_ = false;
  bool starved_ = false;
};

}  // namespace soapstone::transport
