#include "base/memory/shared_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"

namespace soapstone {
namespace {

constexpr size_t kSegmentBytes = size_t{64} << 20;  // at least; no memory until it is touched
constexpr size_t kGivenBackMin = size_t{1} << 20;   // idle blocks of this size hold no memory
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Memory of `size` bytes that can still be sealed, or -1.
int MakeMemory(const char* name, size_t size) {
  const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  if (ftruncate(fd, static_cast<off_t>(size)) == 0) return fd;
  close(fd);
  return -1;
}

// The same memory by a descriptor for reading alone, or -1. Whoever is handed it can neither write
// nor map it writable, nor make a mapping of it writable.
int ReadOnly(int fd) {
  return open(absl::StrCat("/proc/self/fd/", fd).c_str(), O_RDONLY | O_CLOEXEC);
}

std::atomic<SharedArena*>& TheArena() {
  static std::atomic<SharedArena*> arena{nullptr};
  return arena;
}

}  // namespace

int SharedArena::MakeSealed(const char* name, size_t size) {
  const int fd = MakeMemory(name, size);
  if (fd < 0 || fcntl(fd, F_ADD_SEALS, kSeals) == 0) return fd;
  close(fd);
  return -1;
}

bool SharedArena::IsSealed(int fd, size_t size) {
  struct stat facts = {};
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && (seals & F_SEAL_GROW) != 0 &&
         fstat(fd, &facts) == 0 && facts.st_size >= 0 && static_cast<size_t>(facts.st_size) == size;
}

bool SharedArena::Enable() {
  if (Get() != nullptr) return true;
  auto arena = std::make_unique<SharedArena>();
  void* block = arena->Allocate(kBlockMin);
  if (block == nullptr) return false;
  arena->Free(block, kBlockMin);
  SharedArena* none = nullptr;
  // It is never destroyed: buffers may outlive everything else.
  if (TheArena().compare_exchange_strong(none, arena.get())) {
    [[maybe_unused]] SharedArena* kept = arena.release();
  }
  return true;
}

SharedArena* SharedArena::Get() { return TheArena().load(std::memory_order_acquire); }

// A segment is for blocks of one capacity. Our mapping is made first; then nobody gets another one
// to write by. F_SEAL_FUTURE_WRITE holds even for one who opens the descriptor anew, as processes
// of our user can, but the system then refuses MADV_REMOVE too: where blocks are large enough to be
// given back, the descriptor for reading has to do.
bool SharedArena::Grow(size_t capacity) {
  const size_t size = std::max(kSegmentBytes, capacity);
  const int made = MakeMemory("soapstone", size);
  if (made < 0) return false;
  PageBlock memory = PageBlock::MapShared(made, size, true);
  const int seals = capacity < kGivenBackMin ? kSeals | F_SEAL_FUTURE_WRITE : kSeals;
  const bool sealed = !memory.empty() && fcntl(made, F_ADD_SEALS, seals) == 0;
  const int fd = sealed ? ReadOnly(made) : -1;
  close(made);
  if (fd < 0) return false;
  std::byte* const begin = memory.data();
  const uint64_t id = segments_.size() + 1;
  auto segment = std::make_unique<Segment>(Segment{id, fd, begin, size, std::move(memory)});
  segments_.emplace(begin, std::move(segment));
  std::vector<void*>& blocks = free_[capacity];
  // The lowest is taken first.
  for (size_t at = size; at >= capacity; at -= capacity) blocks.push_back(begin + at - capacity);
  return true;
}

void* SharedArena::Allocate(size_t capacity) {
  MutexLock lock(&mutex_);
  std::vector<void*>& blocks = free_[capacity];
  if (blocks.empty() && !Grow(capacity)) return nullptr;
  void* block = blocks.back();
  blocks.pop_back();
  return block;
}

void SharedArena::Free(void* block, size_t capacity) {
  if (capacity >= kGivenBackMin) madvise(block, capacity, MADV_REMOVE);
  MutexLock lock(&mutex_);
  free_[capacity].push_back(block);
}

std::optional<SharedArena::Place> SharedArena::Find(const void* data, size_t size) const {
  const auto* at = static_cast<const std::byte*>(data);
  MutexLock lock(&mutex_);
  auto it = segments_.upper_bound(at);
  if (it == segments_.begin()) return std::nullopt;
  const Segment& segment = *(--it)->second;
  const auto offset = static_cast<size_t>(at - segment.data);
  if (offset > segment.size || size > segment.size - offset) return std::nullopt;
  return Place{&segment, offset};
}

}  // namespace soapstone
