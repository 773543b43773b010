#include <utility>
#include <vector>

#include "compute/reference/links_formula.h"

namespace soapstone::compute {

std::unique_ptr<Formula> MakeFormula(const Split& op, const KernelRequest& request) {
  std::vector<ShapeLink> links;
  const std::vector<int64_t>& whole = request.inputs[0].spec.shape;
  for (const PartElement& e : PartElements(request.outputs, whole, op.axis)) {
    links.push_back({.input = 0, .from = e.whole, .output = e.k, .to = e.part});
  }
  return std::make_unique<LinksFormula>(std::move(links));
}

}  // namespace soapstone::compute
