#include "consistency/peers/collective_schedule.h"

#include <algorithm>

namespace soapstone::consistency {
namespace {

// A ring over the members first, first + stride, .., of which this rank is number `place` of `n`.
struct Ring {
  uint32_t first = 0;
  uint32_t stride = 1;
  uint32_t place = 0;
  uint32_t n = 1;

  uint32_t Next() const { return first + stride * ((place + 1) % n); }
  uint32_t Previous() const { return first + stride * ((place + n - 1) % n); }
};

void ReduceScatter(const Ring& ring, ElementRange range, std::vector<Hop>* hops) {
  for (uint32_t k = 0; k + 1 < ring.n; ++k) {
    const uint32_t chunk = ring.place + ring.n - k;
    hops->push_back({.to = ring.Next(),
                     .send = ChunkOf(range, chunk, ring.n),
                     .from = ring.Previous(),
                     .receive = ChunkOf(range, chunk - 1, ring.n),
                     .add = true,
                     .opens = k == 0});
  }
}

void AllGather(const Ring& ring, ElementRange range, std::vector<Hop>* hops) {
  for (uint32_t k = 0; k + 1 < ring.n; ++k) {
    const uint32_t chunk = ring.place + ring.n + 1 - k;
    hops->push_back({.to = ring.Next(),
                     .send = ChunkOf(range, chunk, ring.n),
                     .from = ring.Previous(),
                     .receive = ChunkOf(range, chunk - 1, ring.n)});
  }
}

}  // namespace

ElementRange ChunkOf(ElementRange range, uint32_t chunk, uint32_t n) {
  const uint64_t c = chunk % n;
  const uint64_t size = range.size();
  // In two parts, so that no product overflows: size = n q + r.
  const uint64_t q = size / n, r = size % n;
  const auto at = [&](uint64_t i) { return range.begin + q * i + r * i / n; };
  return {at(c), at(c + 1)};
}

std::vector<Hop> AllReduceHops(uint32_t rank, uint32_t ranks, uint32_t group, ElementRange all) {
  std::vector<Hop> hops;
  if (group <= 1 || group >= ranks || ranks % group != 0) {
    const Ring flat = {.place = rank, .n = ranks};
    ReduceScatter(flat, all, &hops);
    AllGather(flat, all, &hops);
    return hops;
  }
  const uint32_t place = rank % group;
  const Ring inner = {.first = rank - place, .place = place, .n = group};
  const Ring outer = {.first = place, .stride = group, .place = rank / group, .n = ranks / group};
  const ElementRange mine = ChunkOf(all, place + 1, group);
  ReduceScatter(inner, all, &hops);
  ReduceScatter(outer, mine, &hops);
  AllGather(outer, mine, &hops);
  AllGather(inner, all, &hops);
  return hops;
}

std::vector<ElementRange> StretchesOf(uint64_t elements, uint64_t least) {
  constexpr uint64_t kStretchesMax = 128;
  const auto n = static_cast<uint32_t>(std::clamp<uint64_t>(elements / least, 1, kStretchesMax));
  std::vector<ElementRange> stretches;
  for (uint32_t s = 0; s < n; ++s) stretches.push_back(ChunkOf({0, elements}, s, n));
  return stretches;
}

}  // namespace soapstone::consistency
