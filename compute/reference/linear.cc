#include "compute/reference/formula.h"
#include "glog/logging.h"

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

class EmbeddingFormula : public Formula {
 public:
  explicit EmbeddingFormula(const Embedding& op) : Formula({}), op_(op) {}

  // Y[m,:] = W[ids[m],:]
  void Forward(FormulaTensors* t) const override {
    for (size_t m = 0; m < t->inputs[0].size(); ++m) {
      for (int64_t d = 0; d < op_.dim; ++d) {
        t->outputs[0][m * op_.dim + d] = t->params[0][RowOf(*t, m) * op_.dim + d];
      }
    }
  }

  // dW[ids[m],:] += dY[m,:]
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    for (size_t m = 0; m < t.inputs[0].size(); ++m) {
      for (int64_t d = 0; d < op_.dim; ++d) {
        g->params[0][RowOf(t, m) * op_.dim + d] += g->outputs[0][m * op_.dim + d];
      }
    }
  }

 private:
  int64_t RowOf(const FormulaTensors& t, size_t m) const {
    const int64_t row = static_cast<int64_t>(t.inputs[0][m]);
    CHECK(row >= 0 && row < op_.rows) << "id " << row << " outside of " << op_.rows << " rows";
    return row;
  }

  const Embedding op_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const Linear& op, const KernelRequest& request) {
  auto linear = std::make_unique<LinearFormula>(op, request.inputs[0].spec);
  if (!op.relu) return linear;
  return std::make_unique<ReluOf>(std::move(linear));
}

std::unique_ptr<Formula> MakeFormula(const Embedding& op, const KernelRequest&) {
  return std::make_unique<EmbeddingFormula>(op);
}

}  // namespace soapstone::compute
