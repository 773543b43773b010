#include <algorithm>
#include <utility>
#include <vector>

#include "compute/reference/links_formula.h"

namespace soapstone::compute {

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
