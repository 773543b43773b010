#include "base/memory/recycling.h"

#if defined(__SANITIZE_ADDRESS__)
#define SOAPSTONE_RECYCLES 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SOAPSTONE_RECYCLES 0
#endif
#endif
#ifndef SOAPSTONE_RECYCLES
#define SOAPSTONE_RECYCLES 1
#endif

namespace soapstone {
namespace {

// Of a size, by thread: what one thread makes and another drops piles up with the other.
constexpr size_t kKeptBytesMax = size_t{2} << 20;

}  // namespace

// A thread's own: nobody else sees them, and they end with it. What is let go of after that, by
// what ends later still, is the heap's.
struct Recycler::Lists {
  ~Lists() {
    alive = false;
    for (List& list : lists) {
      while (list.first != nullptr) {
        Piece* piece = list.first;
        list.first = piece->next;
        ::operator delete(piece);
      }
    }
  }
  std::array<List, kBytesMax / kStep> lists;
  bool alive = true;
};

Recycler::List* Recycler::ListOf(size_t bytes) {
  if (SOAPSTONE_RECYCLES == 0 || bytes == 0 || bytes > kBytesMax) return nullptr;
  static thread_local Lists own;
  return own.alive ? &own.lists[(bytes - 1) / kStep] : nullptr;
}

void* Recycler::Take(size_t bytes) {
  List* list = ListOf(bytes);
  if (list == nullptr) return ::operator new(bytes);
  if (list->first == nullptr) return ::operator new((bytes + kStep - 1) / kStep * kStep);
  Piece* piece = list->first;
  list->first = piece->next;
  --list->count;
  return piece;
}

void Recycler::Give(void* piece, size_t bytes) {
  List* list = ListOf(bytes);
  if (list == nullptr || list->count == kKeptMax || list->count * bytes >= kKeptBytesMax) {
    return ::operator delete(piece);
  }
  list->first = new (piece) Piece{list->first};
  ++list->count;
}

}  // namespace soapstone
