// Who sends which elements to whom in an all-reduce: one rank's hops, in order. A value, computed
// alike by every rank.
//
// Ring (Patarasuk and Yuan, JPDC 2009), N ranks, chunk c = [cM/N, (c+1)M/N):
//   reduce-scatter  k = 0 .. N-2: rank r sends chunk r-k, receives chunk r-k-1 and adds it
//   all-gather      k = 0 .. N-2: rank r sends chunk r+1-k, receives chunk r-k and keeps it
// so rank r sends 2M - |chunk r+1| - |chunk r+2| elements, whatever M and N.
// Hierarchical, groups of G: reduce-scatter in the group, a ring among the ranks of the same place
// in each group over the chunk that is theirs, all-gather in the group.
#pragma once

#include <cstdint>
#include <vector>

#include "consistency/peers/peer_seat.h"

namespace soapstone::consistency {

struct Hop {
  uint32_t to = 0;  // index of a member
  ElementRange send;
  uint32_t from = 0;
  ElementRange receive;
  bool add = false;    // else: keep what came
  bool opens = false;  // first hop of a phase: what is here is this phase's own part
  friend bool operator==(const Hop&, const Hop&) = default;
};

// Chunk c (mod n) of n of `range`.
ElementRange ChunkOf(ElementRange range, uint32_t chunk, uint32_t n);

// The hops of rank `rank` of `ranks`. `group` 0 or 1, or no divisor of `ranks`: one flat ring.
std::vector<Hop> AllReduceHops(uint32_t rank, uint32_t ranks, uint32_t group, ElementRange all);

// [0, elements) in equal stretches of `least` elements at least, 128 at most; one at least.
std::vector<ElementRange> StretchesOf(uint64_t elements, uint64_t least);

}  // namespace soapstone::consistency
