// SharedRing: records from one process to another, through memory that both have mapped. One
// writer, one reader. What the other side writes is never trusted: positions are compared with the
// capacity before they are used, and a record is copied out before it is looked at.
//
// Layout: SharedRing::Head, then `capacity` bytes. A record is its size (u32), four spare bytes,
// and its bytes, rounded up to 8; it does not wrap: a size of kSkip says that the rest of the way
// to the end is left out, for want of room there or because the reader has caught up. Positions
// only grow; position p is at byte p mod capacity.
//
// A writer whose records have all been read begins again at the start once it is behind the first
// `home` bytes: so what a quiet link has touched stays small, and in the cache. What it leaves out
// counts as taken until the reader has come past it. So only `home` bytes of records are sure to
// find room while nothing is read, and not the capacity.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace soapstone::transport {

class SharedRing {
  static constexpr size_t kPrefix = 8;

 public:
  struct Head {
    alignas(64) std::atomic<uint64_t> written{0};
    std::atomic<uint32_t> writer_cpu{0};  // where the writer ran then, and 1; 0: not known
    alignas(64) std::atomic<uint64_t> taken{0};
    // The reader sleeps, or is about to: who writes then rings, and sets it back.
    alignas(64) std::atomic<uint32_t> sleeps{0};
  };
  static constexpr size_t BytesFor(size_t capacity) { return sizeof(Head) + capacity; }
  // The largest record of a ring.
  static constexpr size_t RecordMax(size_t capacity) { return capacity / 4; }
  // What a record of `size` bytes takes of the ring.
  static constexpr size_t Taking(size_t size) { return kPrefix + (size + 7) / 8 * 8; }

  // `memory` has BytesFor(capacity) bytes, zeroed at first, aligned to 64. capacity, home:
  // multiples of 8.
  SharedRing(std::byte* memory, size_t capacity, size_t home)
      : head_(reinterpret_cast<Head*>(memory)),
        bytes_(memory + sizeof(Head)),
        capacity_(capacity),
        home_(home) {}

  // ---- The writer's
  // Room for a record of `size` bytes, at most RecordMax, to be filled before Publish; null: none
  // now, or the reader has broken the ring.
  std::byte* Reserve(size_t size);
  // The record reserved last can be read. True: the reader sleeps, and must be rung.
  bool Publish();
  // Positions: behind the record published last, and up to where the reader has taken them. A
  // reader that has taken what was not written has broken the ring.
  uint64_t published() const { return position_; }
  uint64_t taken();

  // ---- The reader's
  // The next record's bytes; empty: none. They may change under the reader's eyes.
  std::optional<absl::Span<const std::byte>> Peek();
  void Pop();
  bool readable() const { return head_->written.load(std::memory_order_acquire) != position_; }
  // Before it sleeps. True: something came meanwhile, do not sleep.
  bool PrepareToSleep();
  // The processor on which the writer wrote last; -1: it has not, or does not know.
  int writer_cpu() const {
    return static_cast<int>(head_->writer_cpu.load(std::memory_order_relaxed)) - 1;
  }
  void Woke() { head_->sleeps.store(0, std::memory_order_relaxed); }

  // Either side: the other has written what cannot be.
  bool broken() const { return broken_; }

 private:
  static constexpr uint32_t kSkip = 0xFFFFFFFF;

  Head* head_;
  std::byte* bytes_;
  size_t capacity_;
  size_t home_;
  uint64_t position_ = 0;  // of the next record to write, or to read; ours alone
  uint64_t next_ = 0;      // behind the record reserved, or peeked at
  bool broken_ = false;
};

}  // namespace soapstone::transport
