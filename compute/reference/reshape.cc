#include <utility>
#include <vector>

#include "compute/reference/links_formula.h"

namespace soapstone::compute {

// Y[i] = X[i]
std::unique_ptr<Formula> MakeFormula(const Reshape&, const KernelRequest& request) {
  std::vector<ShapeLink> links;
  for (int64_t i = 0; i < request.outputs[0].elements(); ++i) {
    links.push_back({.input = 0, .from = i, .output = 0, .to = i});
  }
  return std::make_unique<LinksFormula>(std::move(links));
}

}  // namespace soapstone::compute
