#include <utility>
#include <vector>

#include "compute/reference/links_formula.h"

namespace soapstone::compute {

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

}  // namespace soapstone::compute
