#include <utility>
#include <vector>

#include "compute/reference/links_formula.h"

namespace soapstone::compute {

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

}  // namespace soapstone::compute
