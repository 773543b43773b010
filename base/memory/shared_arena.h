// SharedArena: memory of this process that others of the machine can be shown, so that what lies in
// it travels to them without a copy. Blocks are cut from segments (memfd); a segment's size never
// changes (it is sealed), so that a reader elsewhere cannot be made to fault by its owner; and its
// owner alone can write to it.
// Who calls: BufferPool, for every block, once a shell has turned it on; transports, to learn where
// bytes lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/memory/page_block.h"
#include "base/mutex.h"

namespace soapstone {

// Thread-safe. There is one a process, and it lives as long; a forked child must not use it.
class SharedArena {
 public:
  static constexpr size_t kBlockMin = 4096;  // smaller ones come from the heap

  // Turns it on: BufferPools take their blocks from it from now on. False where the system gives no
  // such memory. Calling it again changes nothing.
  static bool Enable();
  // Null: not turned on.
  static SharedArena* Get();

  struct Segment {
    uint64_t id = 0;  // from 1
    int fd = -1;      // for reading alone; to be handed to others
    std::byte* data = nullptr;
    size_t size = 0;
    PageBlock memory;  // there
  };
  struct Place {
    const Segment* segment = nullptr;  // lives as long as the process
    size_t offset = 0;
  };

  // A block of `capacity` bytes, a power of two and at least kBlockMin, aligned to 4 KiB, contents
  // unspecified. Null: the system has no memory, or no descriptor.
  void* Allocate(size_t capacity) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes it back; large ones give their memory back to the system.
  void Free(void* block, size_t capacity) ABSL_LOCKS_EXCLUDED(mutex_);

  // Where [data, data + size) lies; empty: not, or not as a whole, in a segment.
  std::optional<Place> Find(const void* data, size_t size) const ABSL_LOCKS_EXCLUDED(mutex_);

  // A memfd of `size` bytes, sealed against any change of it, or -1.
  static int MakeSealed(const char* name, size_t size);
  // True when nobody can change its size, which is `size`.
  static bool IsSealed(int fd, size_t size);

 private:
  bool Grow(size_t capacity) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<const std::byte*, std::unique_ptr<Segment>> segments_ ABSL_GUARDED_BY(mutex_);
  std::map<size_t, std::vector<void*>> free_ ABSL_GUARDED_BY(mutex_);  // by capacity
};

}  // namespace soapstone
