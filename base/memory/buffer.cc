#include "base/memory/buffer.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "base/memory/shared_arena.h"
#include "glog/logging.h"

namespace soapstone {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallMax = 512;  // of what is copied beside its owner

void* AllocateAligned(size_t size) { return ::operator new(size, std::align_val_t(kAlignment)); }
void FreeAligned(void* block) { ::operator delete(block, std::align_val_t(kAlignment)); }

}  // namespace

Buffer Buffer::CopyOf(const void* data, size_t size) {
  if (size == 0) return Buffer();
  if (size <= kSmallMax) {
    using Word = std::max_align_t;
    auto words = std::allocate_shared<Word[]>(RecyclingAllocator<Word>(),
                                              (size + sizeof(Word) - 1) / sizeof(Word));
    std::memcpy(words.get(), data, size);
    const void* start = words.get();
    return Buffer(std::move(words), start, size);
  }
  std::shared_ptr<void> owner(AllocateAligned(size), FreeAligned);
  std::memcpy(owner.get(), data, size);
  const void* start = owner.get();
  return Buffer(std::move(owner), start, size);
}

Buffer Buffer::Slice(size_t offset, size_t size) const {
  CHECK_LE(offset, size_);
  CHECK_LE(size, size_ - offset);
  return Buffer(owner_, data_ + offset, size);
}

absl::Span<const float> Buffer::floats() const {
  CHECK(IsFloatAligned());
  return {reinterpret_cast<const float*>(data_), size_ / sizeof(float)};
}

bool operator==(const Buffer& a, const Buffer& b) {
  if (a.size_ != b.size_) return false;
  return a.size_ == 0 || a.data_ == b.data_ || std::memcmp(a.data_, b.data_, a.size_) == 0;
}

// Idle blocks by size class (powers of two).
struct BufferPool::Shelf {
  // Of the source, if there is one; of the process's shared arena, where that is on and the block
  // is large enough; else the heap's.
  struct Memory {
    void* at = nullptr;
    bool shared = false;
    std::shared_ptr<void> of_source;
  };
  Memory Allocate(size_t capacity) const {
    if (source) {
      std::shared_ptr<void> block = source(capacity);
      if (block != nullptr) return {.at = block.get(), .of_source = std::move(block)};
    }
    SharedArena* arena = capacity >= SharedArena::kBlockMin ? SharedArena::Get() : nullptr;
    if (arena != nullptr) {
      if (void* block = arena->Allocate(capacity); block != nullptr) {
        return {.at = block, .shared = true};
      }
    }
    return {.at = AllocateAligned(capacity)};
  }
  static void Free(const Memory& memory, size_t capacity) {
    if (memory.of_source != nullptr) return;
    if (memory.shared) return SharedArena::Get()->Free(memory.at, capacity);
    FreeAligned(memory.at);
  }

  Shelf(size_t kept_bytes_max, Source source)
      : kept_bytes_max(kept_bytes_max), source(std::move(source)) {}
  ~Shelf() {
    for (auto& [size, blocks] : idle) {
      for (const Memory& memory : blocks) Free(memory, size);
    }
  }

  const size_t kept_bytes_max;
  const Source source;
  Mutex mutex;
  std::map<size_t, std::vector<Memory>> idle ABSL_GUARDED_BY(mutex);
  size_t idle_bytes ABSL_GUARDED_BY(mutex) = 0;
};

BufferPool::BufferPool(size_t kept_bytes_max, Source source)
    : shelf_(std::make_shared<Shelf>(kept_bytes_max, std::move(source))) {}

BufferPool::Block BufferPool::Take(size_t size) {
  const size_t capacity = std::bit_ceil(std::max(size, kAlignment));
  Shelf::Memory memory;
  {
    MutexLock lock(&shelf_->mutex);
    auto it = shelf_->idle.find(capacity);
    if (it != shelf_->idle.end() && !it->second.empty()) {
      memory = std::move(it->second.back());
      it->second.pop_back();
      shelf_->idle_bytes -= capacity;
    }
  }
  if (memory.at == nullptr) memory = shelf_->Allocate(capacity);
  Block block;
  block.data = static_cast<std::byte*>(memory.at);
  block.size = size;
  const auto let_go = [shelf = shelf_, capacity, memory](void*) {
    {
      MutexLock lock(&shelf->mutex);
      if (shelf->idle_bytes + capacity <= shelf->kept_bytes_max) {
        shelf->idle[capacity].push_back(memory);
        shelf->idle_bytes += capacity;
        return;
      }
    }
    Shelf::Free(memory, capacity);
  };
  block.owner = std::shared_ptr<void>(memory.at, let_go, RecyclingAllocator<std::byte>());
  return block;
}

size_t BufferPool::idle_bytes() const {
  MutexLock lock(&shelf_->mutex);
  return shelf_->idle_bytes;
}

}  // namespace soapstone
