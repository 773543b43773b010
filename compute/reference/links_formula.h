// The formula of operators that only move or sum elements: a list of links between one element of
// an input and one of an output. Each of them makes its own list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "compute/reference/formula.h"

namespace soapstone::compute {

struct ShapeLink {
  size_t input;
  int64_t from;  // element of that input
  size_t output;
  int64_t to;
};

// Y = weight·Σ_{links} X;  dX = weight·Σ_{links} dY
class LinksFormula : public Formula {
 public:
  explicit LinksFormula(std::vector<ShapeLink> links, double weight = 1)
      : Formula({.inputs = false}), links_(std::move(links)), weight_(weight) {}

  void Forward(FormulaTensors* t) const override {
    for (const ShapeLink& l : links_) {
      t->outputs[l.output][l.to] += weight_ * t->inputs[l.input][l.from];
    }
  }
  void Backward(const FormulaTensors&, FormulaGrads* g) const override {
    for (const ShapeLink& l : links_) {
      g->inputs[l.input][l.from] += weight_ * g->outputs[l.output][l.to];
    }
  }

 private:
  const std::vector<ShapeLink> links_;
  const double weight_;
};

// An element's place along each axis, and back.
std::vector<int64_t> ShapePlace(const std::vector<int64_t>& shape, int64_t element);
int64_t ShapeElement(const std::vector<int64_t>& shape, const std::vector<int64_t>& place);

// part k's element `part`, and the whole's element `whole` that is the same one
struct PartElement {
  size_t k;
  int64_t part, whole;
};
std::vector<PartElement> PartElements(const std::vector<TensorSpec>& parts,
                                      const std::vector<int64_t>& whole, int64_t axis);

}  // namespace soapstone::compute
