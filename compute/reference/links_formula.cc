#include "compute/reference/links_formula.h"

#include "glog/logging.h"

namespace soapstone::compute {

std::vector<int64_t> ShapePlace(const std::vector<int64_t>& shape, int64_t element) {
  std::vector<int64_t> place(shape.size());
  for (size_t axis = shape.size(); axis-- > 0; element /= shape[axis]) {
    place[axis] = element % shape[axis];
  }
  return place;
}

int64_t ShapeElement(const std::vector<int64_t>& shape, const std::vector<int64_t>& place) {
  int64_t element = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) element = element * shape[axis] + place[axis];
  return element;
}

std::vector<PartElement> PartElements(const std::vector<TensorSpec>& parts,
                                      const std::vector<int64_t>& whole, int64_t axis) {
  std::vector<PartElement> elements;
  int64_t begin = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    for (int64_t i = 0; i < parts[k].elements(); ++i) {
      std::vector<int64_t> place = ShapePlace(parts[k].shape, i);
      place[axis] += begin;
      elements.push_back({.k = k, .part = i, .whole = ShapeElement(whole, place)});
    }
    begin += parts[k].shape[axis];
  }
  CHECK_EQ(begin, whole[axis]);
  return elements;
}

}  // namespace soapstone::compute
