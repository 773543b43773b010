// Moves boxes of elements between plain row-major tensors, run by run. Elements are of 4 bytes;
// only floats are scaled and added.
#pragma once

#include <cstdint>
#include <vector>

#include "models/graph/section.h"

namespace soapstone::models {

// How it is written: from's box times `scale`, added to what is there or in its place.
struct BoxWrite {
  bool adds = false;
  float scale = 1;
};

// from, to: whole tensors of these shapes, which hold the box at move.from and move.to.
void MoveBox(const Move& move, const std::vector<int64_t>& from_shape, const void* from,
             const std::vector<int64_t>& to_shape, void* to, BoxWrite write = {});

}  // namespace soapstone::models
