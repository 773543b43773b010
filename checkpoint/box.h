// Boxes of parameters: what a strategy's piece is of a tensor, and what two of them have in common.
// Values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/parameter.h"

namespace soapstone::checkpoint {

// Elements [begin, begin + extent) of each dimension of a tensor of `shape`. Its elements are
// numbered row-major within the box.
struct Box {
  std::vector<int64_t> shape;   // of the parameter
  std::vector<int64_t> begin;   // by dimension
  std::vector<int64_t> extent;  // likewise
  friend bool operator==(const Box&, const Box&) = default;

  uint64_t elements() const;
  bool is_whole() const { return extent == shape; }
};

// All of a parameter.
Box WholeBox(std::vector<int64_t> shape);
// What a parameter of a layout is of the model's: a piece of it, or all.
Box BoxOf(const ParamSpec& spec);
// The name of the model's parameter.
const std::string& WholeName(const ParamSpec& spec);

// "[0:64,32:96]"; of a whole box nothing.
std::string BoxText(const Box& box);
// Whether it is in its shape, in all dimensions, and both have a number of elements that can be.
bool IsBox(const Box& box);

// Elements [begin, end) of a box.
struct Stretch {
  Box box;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// `count` elements that lie side by side in both: from element `from` of the one box on, and from
// element `to` of the other.
struct SharedRun {
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t count = 0;
  friend bool operator==(const SharedRun&, const SharedRun&) = default;
};

// All elements that both have, ascending in both. REQUIRES: IsBox of each, of one shape; stretches
// within their boxes.
std::vector<SharedRun> SharedRuns(const Stretch& from, const Stretch& to);

}  // namespace soapstone::checkpoint
