#include "models/runtime/box_copy.h"

#include <cstring>

#include "glog/logging.h"

namespace soapstone::models {
namespace {

void MoveRun(const float* from, float* to, int64_t n, BoxWrite write) {
  if (write.adds) {
    if (write.scale == 1) {
      for (int64_t i = 0; i < n; ++i) to[i] += from[i];
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] += write.scale * from[i];
    }
  } else if (write.scale == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = write.scale * from[i];
  }
}

// Elements that lie in a row on both sides: those of axes from `outer` on, of which all but the
// first are whole in both tensors.
struct Run {
  size_t outer = 0;
  int64_t elements = 1;
};

Run RunOf(const Move& move, const std::vector<int64_t>& from_shape,
          const std::vector<int64_t>& to_shape) {
  Run run = {.outer = move.size.size()};
  while (run.outer > 0) {
    const size_t axis = --run.outer;
    run.elements *= move.size[axis];
    if (move.size[axis] != from_shape[axis] || move.size[axis] != to_shape[axis]) break;
  }
  return run;
}

// Where the element `index` of a box is that begins at `begin`.
int64_t PlaceOf(const std::vector<int64_t>& shape, const std::vector<int64_t>& begin,
                const std::vector<int64_t>& index) {
  int64_t place = 0;
  for (size_t i = 0; i < shape.size(); ++i) place = place * shape[i] + begin[i] + index[i];
  return place;
}

}  // namespace

void MoveBox(const Move& move, const std::vector<int64_t>& from_shape, const void* from,
             const std::vector<int64_t>& to_shape, void* to, BoxWrite write) {
  const size_t rank = move.size.size();
  CHECK(from_shape.size() == rank && to_shape.size() == rank);
  if (move.elements() == 0) return;
  const Run run = RunOf(move, from_shape, to_shape);
  std::vector<int64_t> index(rank, 0);
  while (true) {
    MoveRun(static_cast<const float*>(from) + PlaceOf(from_shape, move.from, index),
            static_cast<float*>(to) + PlaceOf(to_shape, move.to, index), run.elements, write);
    size_t i = run.outer;
    while (i > 0 && ++index[i - 1] == move.size[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace soapstone::models
