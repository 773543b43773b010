#include "compute/reference/formula.h"

#include <algorithm>
#include <variant>

namespace soapstone::compute {

void ReluOf::Forward(FormulaTensors* t) const {
  z_->Forward(t);
  for (double& y : t->outputs[0]) y = std::max(0.0, y);
}

// dZ = dY where Y > 0, else 0
void ReluOf::Backward(const FormulaTensors& t, FormulaGrads* g) const {
  for (size_t i = 0; i < g->outputs[0].size(); ++i) {
    if (t.outputs[0][i] <= 0) g->outputs[0][i] = 0;
  }
  z_->Backward(t, g);
}

std::unique_ptr<Formula> MakeFormula(const KernelRequest& request) {
  return std::visit([&](const auto& op) { return MakeFormula(op, request); }, request.op);
}

}  // namespace soapstone::compute
