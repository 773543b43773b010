// Buffer: a view of bytes that keeps its owner alive; the unit in which payloads travel without a
// copy. BufferPool: blocks that return to the pool when the last view of them dies; in a process
// that has turned base/memory/shared_arena.h on, others can be shown them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/memory/recycling.h"
#include "base/mutex.h"

namespace soapstone {

// Copying shares the bytes. Invariant: [data, data + size) is alive as long as any copy of owner.
class Buffer {
 public:
  Buffer() = default;
  // Views [data, data+size), kept alive by `owner`.
  Buffer(std::shared_ptr<const void> owner, const void* data, size_t size)
      : owner_(std::move(owner)), data_(static_cast<const std::byte*>(data)), size_(size) {}

  // A copy of the bytes.
  static Buffer CopyOf(const void* data, size_t size);
  static Buffer CopyOf(std::string_view text) { return CopyOf(text.data(), text.size()); }
  template <typename T>
  static Buffer CopyOf(absl::Span<const T> values) {
    return CopyOf(values.data(), values.size() * sizeof(T));
  }

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  // The bytes [offset, offset + size) with the same owner. REQUIRES: inside this view.
  Buffer Slice(size_t offset, size_t size) const;

  // The bytes as floats. REQUIRES: size divides by 4 and data is 4-byte aligned (see Aligned).
  absl::Span<const float> floats() const;
  bool IsFloatAligned() const {
    return size_ % sizeof(float) == 0 && reinterpret_cast<uintptr_t>(data_) % alignof(float) == 0;
  }

  friend bool operator==(const Buffer& a, const Buffer& b);

 private:
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Payloads, and what else comes and goes with messages.
using Buffers = std::vector<Buffer, RecyclingAllocator<Buffer>>;

// Blocks of memory that are used again. Thread-safe. A block outlives the pool if a view of it
// does. The pool keeps at most `kept_bytes_max` idle bytes; what comes back beyond is freed.
class BufferPool {
 public:
  // Memory of a kind of its own: `bytes`, 64-byte aligned, freed with the last copy; null where
  // there is none: then the pool's usual memory is taken.
  using Source = std::function<std::shared_ptr<void>(size_t bytes)>;

  explicit BufferPool(size_t kept_bytes_max = size_t{256} << 20, Source source = nullptr);

  // A writable block of `size` bytes, 64-byte aligned, contents unspecified. It returns to the
  // pool when the last copy of `owner` is gone.
  struct Block {
    std::shared_ptr<void> owner;
    std::byte* data = nullptr;
    size_t size = 0;
    absl::Span<float> floats() const {
      return {reinterpret_cast<float*>(data), size / sizeof(float)};
    }
    Buffer View() const { return Buffer(owner, data, size); }
    Buffer View(size_t offset, size_t length) const { return Buffer(owner, data + offset, length); }
  };
  Block Take(size_t size);

  size_t idle_bytes() const;

 private:
  struct Shelf;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace soapstone
