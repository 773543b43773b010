#include "models/runtime/box_copy.h"

#include <cstring>

#include "glog/logging.h"

namespace soapstone::models {
namespace {

void MoveRun(const float* from, float* to, int64_t n, BoxWrite write, float scale) {
  if (write == BoxWrite::kAdd) {
    if (scale == 1) {
      for (int64_t i = 0; i < n; ++i) to[i] += from[i];
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] += scale * from[i];
    }
  } else if (scale == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = scale * from[i];
  }
}

}  // namespace

void MoveBox(const Move& move, const std::vector<int64_t>& from_shape, const void* from,
             const std::vector<int64_t>& to_shape, void* to, BoxWrite write, float scale) {
  const size_t rank = move.size.size();
  CHECK(from_shape.size() == rank && to_shape.size() == rank);
  if (move.elements() == 0) return;
  // Axes from `outer` on are one run: all but the first of them are whole on both sides.
  size_t outer = rank;
  int64_t run = 1;
  while (outer > 0) {
    --outer;
    run *= move.size[outer];
    if (move.size[outer] != from_shape[outer] || move.size[outer] != to_shape[outer]) break;
  }
  std::vector<int64_t> index(rank, 0);
  while (true) {
    int64_t at_from = 0;
    int64_t at_to = 0;
    for (size_t i = 0; i < rank; ++i) {
      at_from = at_from * from_shape[i] + move.from[i] + index[i];
      at_to = at_to * to_shape[i] + move.to[i] + index[i];
    }
    MoveRun(static_cast<const float*>(from) + at_from, static_cast<float*>(to) + at_to, run, write,
            scale);
    size_t i = outer;
    while (i > 0 && ++index[i - 1] == move.size[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace soapstone::models
