#include "compute/reference/formula.h"

namespace soapstone::compute {
namespace {

// Y[n,e] = X[n,e] + b[e];  db[e] = Σ_n dY[n,e]
class AddParameterFormula : public Formula {
 public:
  AddParameterFormula() : Formula({.inputs = false}) {}

  void Forward(FormulaTensors* t) const override {
    const Reals& b = t->params[0];
    for (size_t i = 0; i < t->outputs[0].size(); ++i) {
      t->outputs[0][i] = t->inputs[0][i] + b[i % b.size()];
    }
  }
  void Backward(const FormulaTensors&, FormulaGrads* g) const override {
    g->inputs[0] = g->outputs[0];
    Reals& db = g->params[0];
    for (size_t i = 0; i < g->outputs[0].size(); ++i) db[i % db.size()] += g->outputs[0][i];
  }
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const AddParameter&, const KernelRequest&) {
  return std::make_unique<AddParameterFormula>();
}

}  // namespace soapstone::compute
