// RecyclingAllocator: for containers that come and go with every message: small pieces of memory go
// back to a list of the thread that lets go of them, and the next one is taken from there. So a
// message whose parts are made and dropped on one thread costs no allocation once the lists have
// what it needs. Large pieces, and those beyond what a list keeps, are the heap's. Under
// AddressSanitizer all are, so that what is used after its end is found.
#pragma once

#include <array>
#include <cstddef>
#include <new>

namespace soapstone {

class Recycler {
 public:
  static constexpr size_t kStep = 32;         // sizes are rounded up to this
  static constexpr size_t kBytesMax = 1024;   // of a piece
  static constexpr size_t kKeptMax = 16'384;  // pieces of a size, by thread

  static void* Take(size_t bytes);
  static void Give(void* piece, size_t bytes);

 private:
  struct Piece {
    Piece* next;
  };
  struct List {
    Piece* first = nullptr;
    size_t count = 0;
  };
  struct Lists;
  static List* ListOf(size_t bytes);  // null: the heap's
};

template <typename T>
class RecyclingAllocator {
 public:
  using value_type = T;
  RecyclingAllocator() = default;
  template <typename U>
  RecyclingAllocator(const RecyclingAllocator<U>&) {}  // NOLINT: as allocators convert

  // NOLINTNEXTLINE(bugprone-sizeof-expression): T may well be a pointer
  T* allocate(size_t n) { return static_cast<T*>(Recycler::Take(n * sizeof(T))); }
  // NOLINTNEXTLINE(bugprone-sizeof-expression)
  void deallocate(T* at, size_t n) { Recycler::Give(at, n * sizeof(T)); }

  template <typename U>
  friend bool operator==(const RecyclingAllocator&, const RecyclingAllocator<U>&) {
    return true;
  }
  static_assert(alignof(T) <= alignof(std::max_align_t));
};

}  // namespace soapstone
