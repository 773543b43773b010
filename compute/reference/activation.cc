#include <algorithm>
#include <cmath>
#include <numbers>

#include "compute/reference/formula.h"

namespace soapstone::compute {
namespace {

class ActivationFormula : public Formula {
 public:
  explicit ActivationFormula(const Activation& op)
      : Formula({.inputs = op.kind == ActivationKind::kGelu,
                 .outputs = op.kind != ActivationKind::kGelu}),
        op_(op) {}

  void Forward(FormulaTensors* t) const override {
    for (size_t i = 0; i < t->outputs[0].size(); ++i) t->outputs[0][i] = ValueAt(t->inputs[0][i]);
  }
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    const Reals& read = reads().inputs ? t.inputs[0] : t.outputs[0];
    for (size_t i = 0; i < read.size(); ++i) {
      g->inputs[0][i] = g->outputs[0][i] * SlopeAt(read[i]);
    }
  }

 private:
  double ValueAt(double x) const {
    switch (op_.kind) {
      case ActivationKind::kRelu:
        return std::max(0.0, x);
      case ActivationKind::kTanh:
        return std::tanh(x);
      case ActivationKind::kSigmoid:
        return 1 / (1 + std::exp(-x));
      case ActivationKind::kGelu:
        return x * Phi(x);
    }
    return 0;
  }

  // Of y: [y > 0], 1 − y², y·(1 − y); of x: Φ(x) + x·φ(x)
  double SlopeAt(double v) const {
    switch (op_.kind) {
      case ActivationKind::kRelu:
        return v > 0 ? 1 : 0;
      case ActivationKind::kTanh:
        return 1 - v * v;
      case ActivationKind::kSigmoid:
        return v * (1 - v);
      case ActivationKind::kGelu:
        return Phi(v) + v * std::exp(-v * v / 2) / std::sqrt(2 * std::numbers::pi);
    }
    return 0;
  }

  // The standard normal's distribution function.
  static double Phi(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

  const Activation op_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const Activation& op, const KernelRequest&) {
  return std::make_unique<ActivationFormula>(op);
}

}  // namespace soapstone::compute
