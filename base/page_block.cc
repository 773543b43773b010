#include "base/page_block.h"

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

PageBlock PageBlock::Map(size_t bytes, bool huge) {
  constexpr size_t kPage = 4096;
  const size_t size = (bytes + kPage - 1) / kPage * kPage;
  const size_t mapped = huge ? size + kHugePage : size;
  void* const got = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PageBlock block;
  if (got == MAP_FAILED) return block;
  auto* begin = static_cast<std::byte*>(got);
  if (huge) {
    // What is before and after the aligned part goes back.
    const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
    if (before > 0) munmap(begin, before);
    begin += before;
    munmap(begin + size, kHugePage - before);
    madvise(begin, size, MADV_HUGEPAGE);  // where it is not allowed, small pages do
  }
  block.data_ = begin;
  block.size_ = size;
  return block;
}

}  // namespace soapstone
