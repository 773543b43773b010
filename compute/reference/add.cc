#include <utility>

#include "compute/reference/formula.h"

namespace soapstone::compute {
namespace {

// Y = Σ_k X_k
class AddFormula : public Formula {
 public:
  AddFormula() : Formula({.inputs = false}) {}

  void Forward(FormulaTensors* t) const override {
    for (const Reals& x : t->inputs) {
      for (size_t i = 0; i < x.size(); ++i) t->outputs[0][i] += x[i];
    }
  }
  void Backward(const FormulaTensors&, FormulaGrads* g) const override {
    for (Reals& dx : g->inputs) dx = g->outputs[0];
  }
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const Add& op, const KernelRequest&) {
  auto add = std::make_unique<AddFormula>();
  if (!op.relu) return add;
  return std::make_unique<ReluOf>(std::move(add));
}

}  // namespace soapstone::compute
