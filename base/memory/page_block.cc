#include "base/memory/page_block.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

namespace soapstone {

PageBlock& PageBlock::operator=(PageBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PageBlock::~PageBlock() {
  if (data_ != nullptr) munmap(data_, size_);
}

namespace {

constexpr size_t kPage = 4096;
constexpr int kOwn = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// Addresses for `size` bytes, a multiple of kPage, that begin where a huge page may; null: none.
std::byte* MapAligned(size_t size, int protection) {
  constexpr size_t kHugePage = PageBlock::kHugePage;
  void* const got = mmap(nullptr, size + kHugePage, protection, kOwn, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  // What is before and after the aligned part goes back.
  auto* begin = static_cast<std::byte*>(got);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) munmap(begin, before);
  begin += before;
  munmap(begin + size, kHugePage - before);
  return begin;
}

size_t WholePages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

PageBlock PageBlock::Map(size_t bytes, bool huge) {
  constexpr int kReadWrite = PROT_READ | PROT_WRITE;
  PageBlock block;
  const size_t size = WholePages(bytes);
  if (huge) {
    block.data_ = MapAligned(size, kReadWrite);
    // Where it is not allowed, small pages do.
    if (!block.empty()) madvise(block.data_, size, MADV_HUGEPAGE);
  } else {
    void* const got = mmap(nullptr, size, kReadWrite, kOwn, -1, 0);
    if (got != MAP_FAILED) block.data_ = static_cast<std::byte*>(got);
  }
  if (!block.empty()) block.size_ = size;
  return block;
}

PageBlock PageBlock::MapShared(int fd, size_t bytes, bool writable) {
  PageBlock block;
  const size_t size = WholePages(bytes);
  std::byte* const at = MapAligned(size, PROT_NONE);
  if (at == nullptr) return block;
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  if (mmap(at, bytes, protection, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) == MAP_FAILED) {
    munmap(at, size);
    return block;
  }
  madvise(at, size, MADV_HUGEPAGE);
  block.data_ = at;
  block.size_ = size;
  return block;
}

}  // namespace soapstone
