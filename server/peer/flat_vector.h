// FlatVector: a vector as long as the model, in parts that are views of memory which others have
// filled: gradients as their worker pushed them, parcels as they came. Taking a part copies
// nothing; only where something is added, or is wanted in one piece, new memory is written, and
// once. What is in no part is 0. PeerVectors alone calls it. A value: copies share their parts,
// which nobody changes; a pool must outlive nothing.
//
// Invariant: parts are ascending, apart from each other, and not empty.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/memory/buffer.h"
#include "consistency/peers/peer_seat.h"

namespace soapstone::server {

using consistency::ElementRange;

template <typename T>
class FlatVector {
 public:
  struct Part {
    ElementRange range;
    Buffer view;  // of range.size() elements

    const T* elements() const { return reinterpret_cast<const T*>(view.data()); }
  };

  explicit FlatVector(uint64_t elements) : elements_(elements) {}

  bool zero() const { return parts_.empty(); }
  void Clear() { parts_.clear(); }
  const std::vector<Part>& parts() const { return parts_; }

  // [range] := view. REQUIRES: it has as many elements.
  void Set(ElementRange range, const Buffer& view) {
    if (range.size() == 0) return;
    Clear(range);
    parts_.insert(FirstBeyond(range.begin), {range, view});
  }
  // [range] := 0
  void Clear(ElementRange range) {
    if (range.size() == 0) return;
    const auto first = FirstBeyond(range.begin);
    auto last = first;
    while (last != parts_.end() && last->range.begin < range.end) ++last;
    if (first == last) return;
    std::vector<Part> rest;  // what sticks out on either side
    if (first->range.begin < range.begin) {
      rest.push_back(Cut(*first, {first->range.begin, range.begin}));
    }
    const Part& end = *std::prev(last);
    if (end.range.end > range.end) rest.push_back(Cut(end, {range.end, end.range.end}));
    const auto at = parts_.erase(first, last);
    parts_.insert(at, rest.begin(), rest.end());
  }
  // The parts that lie in `range`, cut to it.
  std::vector<Part> PartsIn(ElementRange range) const {
    std::vector<Part> parts;
    if (range.size() == 0) return parts;
    for (auto part = FirstBeyond(range.begin);
         part != parts_.end() && part->range.begin < range.end; ++part) {
      parts.push_back(Cut(
          *part, {std::max(part->range.begin, range.begin), std::min(part->range.end, range.end)}));
    }
    return parts;
  }

  // [range] += factor · view
  void Add(ElementRange range, const Buffer& view, T factor, BufferPool* pool) {
    if (range.size() == 0) return;
    if (factor == T{1} && !Meets(range)) return Set(range, view);
    const T* from = reinterpret_cast<const T*>(view.data());
    const BufferPool::Block block = pool->Take(range.size() * sizeof(T));
    T* to = reinterpret_cast<T*>(block.data);
    Walk(range, [&](ElementRange at, const T* own) {
      const T* other = from + (at.begin - range.begin);
      T* sum = to + (at.begin - range.begin);
      const uint64_t n = at.size();
      if (own == nullptr) {
        for (uint64_t e = 0; e < n; ++e) sum[e] = factor * other[e];
      } else {
        for (uint64_t e = 0; e < n; ++e) sum[e] = own[e] + factor * other[e];
      }
    });
    Set(range, block.View(0, range.size() * sizeof(T)));
  }

  // [range], as it lies: views of parts, and zeros between them.
  Buffers Views(ElementRange range, BufferPool* pool) const {
    Buffers views;
    Walk(range, [&](ElementRange at, const T* own) {
      if (own == nullptr || views.size() >= kViewsMax) return;
      views.push_back(Read(at, pool));
    });
    size_t bytes = 0;
    for (const Buffer& view : views) bytes += view.size();
    if (bytes == range.size() * sizeof(T)) return views;
    return {Read(range, pool)};
  }

  // [range], in one piece: a view, where one part has it all.
  Buffer Read(ElementRange range, BufferPool* pool) const {
    const auto part = FirstBeyond(range.begin);
    if (part != parts_.end() && part->range.begin <= range.begin && range.end <= part->range.end &&
        range.size() > 0) {
      return Cut(*part, range).view;
    }
    const BufferPool::Block block = pool->Take(range.size() * sizeof(T));
    T* to = reinterpret_cast<T*>(block.data);
    Walk(range, [&](ElementRange at, const T* own) {
      T* here = to + (at.begin - range.begin);
      if (own == nullptr) {
        std::fill(here, here + at.size(), T{0});
      } else {
        std::memcpy(here, own, at.size() * sizeof(T));
      }
    });
    return block.View(0, range.size() * sizeof(T));
  }

  // do_part(range, elements; null: they are 0) of all that lies in `range`, in order.
  template <typename DoPart>
  void Walk(ElementRange range, DoPart do_part) const {
    if (range.size() == 0) return;
    uint64_t at = range.begin;
    for (auto part = FirstBeyond(range.begin);
         part != parts_.end() && part->range.begin < range.end; ++part) {
      const ElementRange here = {std::max(part->range.begin, range.begin),
                                 std::min(part->range.end, range.end)};
      if (at < here.begin) do_part(ElementRange{at, here.begin}, static_cast<const T*>(nullptr));
      do_part(here, part->elements() + (here.begin - part->range.begin));
      at = here.end;
    }
    if (at < range.end) do_part(ElementRange{at, range.end}, static_cast<const T*>(nullptr));
  }

  uint64_t elements() const { return elements_; }
  ElementRange all() const { return {0, elements_}; }

 private:
  static constexpr size_t kViewsMax = 4096;

  static Part Cut(const Part& part, ElementRange to) {
    return {to, part.view.Slice((to.begin - part.range.begin) * sizeof(T), to.size() * sizeof(T))};
  }
  bool Meets(ElementRange range) const {
    const auto part = FirstBeyond(range.begin);
    return part != parts_.end() && part->range.begin < range.end;
  }
  // The first part that ends beyond `at`.
  typename std::vector<Part>::const_iterator FirstBeyond(uint64_t at) const {
    return std::partition_point(parts_.begin(), parts_.end(),
                                [&](const Part& part) { return part.range.end <= at; });
  }

  uint64_t elements_;
  std::vector<Part> parts_;
};

}  // namespace soapstone::server
