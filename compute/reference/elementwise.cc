#include <algorithm>
#include <cmath>
#include <numbers>

#include "compute/dropout_mask.h"
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

class DropoutFormula : public Formula {
 public:
  DropoutFormula(const Dropout& op, const KernelRequest& request)
      : Formula({.inputs = false}),
        op_(op),
        training_(request.training),
        seed_(request.seed),
        op_index_(request.op_index),
        n_(request.inputs[0].spec.shape[0]),
        elements_(request.inputs[0].spec.elements() / n_) {}

  // y = m·x, m = 1/(1 − rate) if the element is kept, else 0; m = 1 in evaluation
  void Forward(FormulaTensors* t) const override {
    if (training_) {
      Mask(*t, t->inputs[0], &t->outputs[0]);
    } else {
      t->outputs[0] = t->inputs[0];
    }
  }
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    Mask(t, g->outputs[0], &g->inputs[0]);
  }

 private:
  void Mask(const FormulaTensors& t, const Reals& from, Reals* to) const {
    const CounterRandom stream = DropoutStream(seed_, t.step, op_index_);
    for (int64_t n = 0; n < n_; ++n) {
      for (int64_t e = 0; e < elements_; ++e) {
        const uint64_t block = DropoutBlock(t.first_sample + n, elements_, e / 4);
        const bool kept = stream.Block(block)[e % 4] >= DropoutThreshold(op_.rate);
        (*to)[n * elements_ + e] = kept ? from[n * elements_ + e] / (1 - op_.rate) : 0;
      }
    }
  }

  const Dropout op_;
  const bool training_;
  const uint64_t seed_;
  const uint32_t op_index_;
  const int64_t n_, elements_;
};

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

std::unique_ptr<Formula> MakeFormula(const Activation& op, const KernelRequest&) {
  return std::make_unique<ActivationFormula>(op);
}
std::unique_ptr<Formula> MakeFormula(const Dropout& op, const KernelRequest& request) {
  return std::make_unique<DropoutFormula>(op, request);
}
std::unique_ptr<Formula> MakeFormula(const Add& op, const KernelRequest&) {
  auto add = std::make_unique<AddFormula>();
  if (!op.relu) return add;
  return std::make_unique<ReluOf>(std::move(add));
}
std::unique_ptr<Formula> MakeFormula(const Multiply&, const KernelRequest&) {
  return std::make_unique<MultiplyFormula>();
}
std::unique_ptr<Formula> MakeFormula(const AddParameter&, const KernelRequest&) {
  return std::make_unique<AddParameterFormula>();
}

}  // namespace soapstone::compute
