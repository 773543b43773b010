#include "compute/reference/formula.h"

namespace soapstone::compute {
namespace {

// Y = X_1·X_2;  dX_1 = dY·X_2, dX_2 = dY·X_1
class MultiplyFormula : public Formula {
 public:
  MultiplyFormula() : Formula({}) {}

  void Forward(FormulaTensors* t) const override {
    for (size_t i = 0; i < t->outputs[0].size(); ++i) {
      t->outputs[0][i] = t->inputs[0][i] * t->inputs[1][i];
    }
  }
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    for (size_t i = 0; i < g->outputs[0].size(); ++i) {
      g->inputs[0][i] = g->outputs[0][i] * t.inputs[1][i];
      g->inputs[1][i] = g->outputs[0][i] * t.inputs[0][i];
    }
  }
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const Multiply&, const KernelRequest&) {
  return std::make_unique<MultiplyFormula>();
}

}  // namespace soapstone::compute
