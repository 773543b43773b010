// Operators that only move or sum elements: each is a list of links between one element of an input
// and one of an output.
#include <algorithm>

#include "compute/reference/formula.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

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

// part k's element `part`, and the whole's element `whole` that is the same one
struct PartElement {
  size_t k;
  int64_t part, whole;
};
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

}  // namespace

// Parts lie one behind the other along the axis.
std::unique_ptr<Formula> MakeFormula(const Concat& op, const KernelRequest& request) {
  std::vector<TensorSpec> parts;
  for (const Format& input : request.inputs) parts.push_back(input.spec);
  std::vector<ShapeLink> links;
  for (const PartElement& e : PartElements(parts, request.outputs[0].shape, op.axis)) {
    links.push_back({.input = e.k, .from = e.part, .output = 0, .to = e.whole});
  }
  return std::make_unique<LinksFormula>(std::move(links));
}

std::unique_ptr<Formula> MakeFormula(const Split& op, const KernelRequest& request) {
  std::vector<ShapeLink> links;
  const std::vector<int64_t>& whole = request.inputs[0].spec.shape;
  for (const PartElement& e : PartElements(request.outputs, whole, op.axis)) {
    links.push_back({.input = 0, .from = e.whole, .output = e.k, .to = e.part});
  }
  return std::make_unique<LinksFormula>(std::move(links));
}

// Y[i] = X[i]
std::unique_ptr<Formula> MakeFormula(const Reshape&, const KernelRequest& request) {
  std::vector<ShapeLink> links;
  for (int64_t i = 0; i < request.outputs[0].elements(); ++i) {
    links.push_back({.input = 0, .from = i, .output = 0, .to = i});
  }
  return std::make_unique<LinksFormula>(std::move(links));
}

// The place along output axis i is that along input axis permutation[i].
std::unique_ptr<Formula> MakeFormula(const Transpose& op, const KernelRequest& request) {
  const TensorSpec& x = request.inputs[0].spec;
  std::vector<ShapeLink> links;
  for (int64_t i = 0; i < x.elements(); ++i) {
    const std::vector<int64_t> place = ShapePlace(x.shape, i);
    std::vector<int64_t> moved;
    for (int64_t axis : op.permutation) moved.push_back(place[axis]);
    links.push_back(
        {.input = 0, .from = i, .output = 0, .to = ShapeElement(request.outputs[0].shape, moved)});
  }
  return std::make_unique<LinksFormula>(std::move(links));
}

// Y = Σ over the axes of X, kMean: divided by how many there are
std::unique_ptr<Formula> MakeFormula(const Reduce& op, const KernelRequest& request) {
  const TensorSpec& x = request.inputs[0].spec;
  std::vector<ShapeLink> links;
  for (int64_t i = 0; i < x.elements(); ++i) {
    const std::vector<int64_t> place = ShapePlace(x.shape, i);
    std::vector<int64_t> kept;
    for (size_t axis = 0; axis < place.size(); ++axis) {
      const bool gone = std::count(op.axes.begin(), op.axes.end(), static_cast<int64_t>(axis)) > 0;
      if (!gone) kept.push_back(place[axis]);
    }
    links.push_back(
        {.input = 0, .from = i, .output = 0, .to = ShapeElement(request.outputs[0].shape, kept)});
  }
  const double terms =
      static_cast<double>(x.elements()) / static_cast<double>(request.outputs[0].elements());
  return std::make_unique<LinksFormula>(std::move(links),
                                        op.kind == ReduceKind::kMean ? 1 / terms : 1);
}

}  // namespace soapstone::compute
