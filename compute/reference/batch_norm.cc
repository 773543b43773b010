#include <algorithm>
#include <cmath>
#include <utility>

#include "compute/reference/channels.h"
#include "compute/reference/formula.h"

namespace soapstone::compute {
namespace {

class BatchNormFormula : public Formula {
 public:
  BatchNormFormula(const BatchNorm& op, const TensorSpec& x, bool training)
      : Formula({}), op_(op), training_(training), x_(x) {}

  // y = γ·x̂ + β, x̂ = (x − μ)/s, s = √(σ² + ε), by channel
  void Forward(FormulaTensors* t) const override {
    for (int64_t c = 0; c < x_.count; ++c) {
      const auto [mean, variance] =
          training_ ? MomentsOf(t->inputs[0], c) : Moments{t->params[2][c], t->params[3][c]};
      const double s = std::sqrt(variance + op_.epsilon);
      x_.ForEach(c, [&, mu = mean](int64_t i) {
        t->outputs[0][i] = t->params[0][c] * (t->inputs[0][i] - mu) / s + t->params[1][c];
      });
    }
  }

  // dγ = Σ dy·x̂;  dβ = Σ dy;  dx = γ/s·(dy − mean(dy) − x̂·mean(dy·x̂))
  // running: n·(μ_run − μ), n·(σ²_run − σ²·m/(m − 1)); n samples, m elements of the channel (a
  // variance of one element is 0)
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    const Reals &x = t.inputs[0], &dy = g->outputs[0];
    const double m = x_.elements(), n = static_cast<double>(x_.samples);
    for (int64_t c = 0; c < x_.count; ++c) {
      const Moments now = MomentsOf(x, c);
      const double s = std::sqrt(now.variance + op_.epsilon);
      double &dgamma = g->params[0][c], &dbeta = g->params[1][c];
      x_.ForEach(c, [&](int64_t i) {
        dgamma += dy[i] * (x[i] - now.mean) / s;
        dbeta += dy[i];
      });
      x_.ForEach(c, [&](int64_t i) {
        const double x_hat = (x[i] - now.mean) / s;
        g->inputs[0][i] = t.params[0][c] / s * (dy[i] - dbeta / m - x_hat * dgamma / m);
      });
      g->params[2][c] = n * (t.params[2][c] - now.mean);
      g->params[3][c] = n * (t.params[3][c] - now.variance * m / std::max(m - 1, 1.0));
    }
  }

 private:
  struct Moments {
    double mean, variance;
  };
  Moments MomentsOf(const Reals& x, int64_t c) const {
    const double m = x_.elements();
    double mean = 0, variance = 0;
    x_.ForEach(c, [&](int64_t i) { mean += x[i] / m; });
    x_.ForEach(c, [&](int64_t i) { variance += (x[i] - mean) * (x[i] - mean) / m; });
    return {mean, variance};
  }

  const BatchNorm op_;
  const bool training_;
  const Channels x_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const BatchNorm& op, const KernelRequest& request) {
  auto norm = std::make_unique<BatchNormFormula>(op, request.inputs[0].spec, request.training);
  if (!op.relu) return norm;
  return std::make_unique<ReluOf>(std::move(norm));
}

}  // namespace soapstone::compute
