#include <utility>

#include "compute/reference/formula.h"

namespace soapstone::compute {
namespace {

class LinearFormula : public Formula {
 public:
  LinearFormula(const Linear& op, const TensorSpec& x)
      : Formula({}), o_(op.outputs), d_(x.shape.back()), m_(x.elements() / d_), bias_(op.bias) {}

  // Y[m,o] = b[o] + Σ_d X[m,d]·W[o,d]
  void Forward(FormulaTensors* t) const override {
    const Reals &x = t->inputs[0], &w = t->params[0];
    for (int64_t m = 0; m < m_; ++m) {
      for (int64_t o = 0; o < o_; ++o) {
        double y = bias_ ? t->params[1][o] : 0;
        for (int64_t d = 0; d < d_; ++d) y += x[m * d_ + d] * w[o * d_ + d];
        t->outputs[0][m * o_ + o] = y;
      }
    }
  }

  // dX[m,d] = Σ_o dY[m,o]·W[o,d];  dW[o,d] = Σ_m dY[m,o]·X[m,d];  db[o] = Σ_m dY[m,o]
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    const Reals &x = t.inputs[0], &w = t.params[0];
    for (int64_t m = 0; m < m_; ++m) {
      for (int64_t o = 0; o < o_; ++o) {
        const double dy = g->outputs[0][m * o_ + o];
        for (int64_t d = 0; d < d_; ++d) {
          g->inputs[0][m * d_ + d] += dy * w[o * d_ + d];
          g->params[0][o * d_ + d] += dy * x[m * d_ + d];
        }
        if (bias_) g->params[1][o] += dy;
      }
    }
  }

 private:
  const int64_t o_, d_, m_;
  const bool bias_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const Linear& op, const KernelRequest& request) {
  auto linear = std::make_unique<LinearFormula>(op, request.inputs[0].spec);
  if (!op.relu) return linear;
  return std::make_unique<ReluOf>(std::move(linear));
}

}  // namespace soapstone::compute
