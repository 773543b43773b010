// PageBlock: memory by the page straight from the system, for arrays that grow by a block at a time
// and stay where they are, and for memory that processes share. It holds nothing until it is
// touched, and starts as zeros.
#pragma once

#include <cstddef>

namespace soapstone {

// Movable; the memory goes back when it dies.
class PageBlock {
 public:
  static constexpr size_t kHugePage = size_t{2} << 20;

  PageBlock() = default;
  PageBlock(PageBlock&& other) noexcept { *this = static_cast<PageBlock&&>(other); }
  PageBlock& operator=(PageBlock&& other) noexcept;
  ~PageBlock();

  // `huge`: begins where a huge page may, and asks for them: they hold memory by 2 MB, and take one
  // entry of the processor's table of pages. What is beyond the last whole one is in small pages.
  // Without memory: an empty block.
  static PageBlock Map(size_t bytes, bool huge);

  // The file of memory `fd` (memfd), shared with whoever else maps it. Huge as above, where the
  // system allows it of shared memory (/sys/kernel/mm/transparent_hugepage/shmem_enabled: advise).
  static PageBlock MapShared(int fd, size_t bytes, bool writable);

  bool empty() const { return data_ == nullptr; }
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace soapstone
