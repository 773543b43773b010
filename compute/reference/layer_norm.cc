#include <cmath>

#include "compute/reference/formula.h"

namespace soapstone::compute {
namespace {

class LayerNormFormula : public Formula {
 public:
  LayerNormFormula(const LayerNorm& op, const TensorSpec& x)
      : Formula({}), op_(op), d_(x.shape.back()), m_(x.elements() / d_) {}

  // y = γ·x̂ + β, x̂ = (x − μ)/s, s = √(σ² + ε), by row
  void Forward(FormulaTensors* t) const override {
    for (int64_t m = 0; m < m_; ++m) {
      const Row row = RowOf(t->inputs[0], m);
      for (int64_t d = 0; d < d_; ++d) {
        t->outputs[0][m * d_ + d] = t->params[0][d] * row.x_hat[d] + t->params[1][d];
      }
    }
  }

  // dγ = Σ_m dy·x̂;  dβ = Σ_m dy;  dx = (q − mean(q) − x̂·mean(q·x̂))/s with q = γ·dy
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    for (int64_t m = 0; m < m_; ++m) {
      const Row row = RowOf(t.inputs[0], m);
      Reals q(d_);
      double q_mean = 0, qx_mean = 0;
      for (int64_t d = 0; d < d_; ++d) {
        const double dy = g->outputs[0][m * d_ + d];
        g->params[0][d] += dy * row.x_hat[d];
        g->params[1][d] += dy;
        q[d] = t.params[0][d] * dy;
        q_mean += q[d] / static_cast<double>(d_);
        qx_mean += q[d] * row.x_hat[d] / static_cast<double>(d_);
      }
      for (int64_t d = 0; d < d_; ++d) {
        g->inputs[0][m * d_ + d] = (q[d] - q_mean - row.x_hat[d] * qx_mean) / row.s;
      }
    }
  }

 private:
  struct Row {
    Reals x_hat;
    double s;
  };
  Row RowOf(const Reals& x, int64_t m) const {
    double mean = 0, variance = 0;
    for (int64_t d = 0; d < d_; ++d) mean += x[m * d_ + d] / static_cast<double>(d_);
    Row row{.x_hat = Reals(d_), .s = 0};
    for (int64_t d = 0; d < d_; ++d) {
      row.x_hat[d] = x[m * d_ + d] - mean;
      variance += row.x_hat[d] * row.x_hat[d] / static_cast<double>(d_);
    }
    row.s = std::sqrt(variance + op_.epsilon);
    for (double& v : row.x_hat) v /= row.s;
    return row;
  }

  const LayerNorm op_;
  const int64_t d_, m_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const LayerNorm& op, const KernelRequest& request) {
  return std::make_unique<LayerNormFormula>(op, request.inputs[0].spec);
}

}  // namespace soapstone::compute
