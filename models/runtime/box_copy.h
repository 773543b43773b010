// Moves boxes of elements between plain row-major tensors, run by run. Elements are of 4 bytes;
// only floats are scaled and added.
#pragma once

#include <cstdint>
#include <vector>

#include "models/graph/section.h"

namespace soapstone::models {

enum class BoxWrite : uint8_t { kCopy, kAdd };

// to's box = scale · from's box, or is increased by that. from, to: whole tensors of these shapes,
// which hold the box at move.from and move.to.
void MoveBox(const Move& move, const std::vector<int64_t>& from_shape, const void* from,
             const std::vector<int64_t>& to_shape, void* to, BoxWrite write = BoxWrite::kCopy,
             float scale = 1);

}  // namespace soapstone::models
