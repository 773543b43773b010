#include <algorithm>
#include <cmath>

#include "compute/reference/formula.h"

namespace soapstone::compute {
namespace {

class BatchNormFormula : public Formula {
 public:
  BatchNormFormula(const BatchNorm& op, const TensorSpec& x, bool training)
      : Formula({}),
        op_(op),
        training_(training),
        n_(x.shape[0]),
        c_(x.shape[1]),
        places_(x.elements() / (n_ * c_)) {}

  // y = γ·x̂ + β, x̂ = (x − μ)/s, s = √(σ² + ε), by channel
  void Forward(FormulaTensors* t) const override {
    for (int64_t c = 0; c < c_; ++c) {
      const auto [mean, variance] =
          training_ ? MomentsOf(t->inputs[0], c) : Moments{t->params[2][c], t->params[3][c]};
      const double s = std::sqrt(variance + op_.epsilon);
      ForEach(c, [&, mu = mean](int64_t i) {
        t->outputs[0][i] = t->params[0][c] * (t->inputs[0][i] - mu) / s + t->params[1][c];
      });
    }
  }

  // dγ = Σ dy·x̂;  dβ = Σ dy;  dx = γ/s·(dy − mean(dy) − x̂·mean(dy·x̂))
  // running: n·(μ_run − μ), n·(σ²_run − σ²·m/(m − 1)); n samples, m elements of the channel (a
  // variance of one element is 0)
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    const Reals &x = t.inputs[0], &dy = g->outputs[0];
    const double m = static_cast<double>(n_ * places_), n = static_cast<double>(n_);
    for (int64_t c = 0; c < c_; ++c) {
      const Moments now = MomentsOf(x, c);
      const double s = std::sqrt(now.variance + op_.epsilon);
      double &dgamma = g->params[0][c], &dbeta = g->params[1][c];
      ForEach(c, [&](int64_t i) {
        dgamma += dy[i] * (x[i] - now.mean) / s;
        dbeta += dy[i];
      });
      ForEach(c, [&](int64_t i) {
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
    const double m = static_cast<double>(n_ * places_);
    double mean = 0, variance = 0;
    ForEach(c, [&](int64_t i) { mean += x[i] / m; });
    ForEach(c, [&](int64_t i) { variance += (x[i] - mean) * (x[i] - mean) / m; });
    return {mean, variance};
  }

  // body(index) for each element of channel c
  template <class Body>
  void ForEach(int64_t c, const Body& body) const {
    for (int64_t n = 0; n < n_; ++n) {
      for (int64_t p = 0; p < places_; ++p) body((n * c_ + c) * places_ + p);
    }
  }

  const BatchNorm op_;
  const bool training_;
  const int64_t n_, c_, places_;
};

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

class LocalResponseNormFormula : public Formula {
 public:
  LocalResponseNormFormula(const LocalResponseNorm& op, const std::vector<int64_t>& x)
      : Formula({}), op_(op), n_(x[0]), c_(x[1]), places_(x[2] * x[3]) {}

  // y_c = x_c·u_c^−β, u_c = k + α/size·Σ_{c' in window(c)} x_c'²
  void Forward(FormulaTensors* t) const override {
    const Reals u = ScalesOf(t->inputs[0]);
    for (size_t i = 0; i < u.size(); ++i) {
      t->outputs[0][i] = t->inputs[0][i] * std::pow(u[i], -op_.beta);
    }
  }

  // dx_c' = dy_c'·u_c'^−β − 2αβ/size·x_c'·Σ_{c: c' in window(c)} dy_c·x_c·u_c^(−β−1)
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    const Reals &x = t.inputs[0], &dy = g->outputs[0];
    const Reals u = ScalesOf(x);
    for (size_t i = 0; i < u.size(); ++i) g->inputs[0][i] += dy[i] * std::pow(u[i], -op_.beta);
    const double factor = 2 * op_.alpha * op_.beta / static_cast<double>(op_.size);
    ForEachPair([&](int64_t i, int64_t other) {
      g->inputs[0][other] -= factor * x[other] * dy[i] * x[i] * std::pow(u[i], -op_.beta - 1);
    });
  }

 private:
  Reals ScalesOf(const Reals& x) const {
    Reals u(x.size(), op_.k);
    ForEachPair([&](int64_t i, int64_t other) {
      u[i] += op_.alpha / static_cast<double>(op_.size) * x[other] * x[other];
    });
    return u;
  }

  // body(index of an element, index of one in its window); the window of an even size has one more
  // channel before its element than behind it
  template <class Body>
  void ForEachPair(const Body& body) const {
    for (int64_t n = 0; n < n_; ++n) {
      for (int64_t c = 0; c < c_; ++c) {
        const int64_t first = std::max<int64_t>(0, c - op_.size / 2);
        const int64_t last = std::min(c_ - 1, c + (op_.size - 1) / 2);
        for (int64_t other = first; other <= last; ++other) {
          for (int64_t p = 0; p < places_; ++p) {
            body((n * c_ + c) * places_ + p, (n * c_ + other) * places_ + p);
          }
        }
      }
    }
  }

  const LocalResponseNorm op_;
  const int64_t n_, c_, places_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const BatchNorm& op, const KernelRequest& request) {
  auto norm = std::make_unique<BatchNormFormula>(op, request.inputs[0].spec, request.training);
  if (!op.relu) return norm;
  return std::make_unique<ReluOf>(std::move(norm));
}

std::unique_ptr<Formula> MakeFormula(const LayerNorm& op, const KernelRequest& request) {
  return std::make_unique<LayerNormFormula>(op, request.inputs[0].spec);
}

std::unique_ptr<Formula> MakeFormula(const LocalResponseNorm& op, const KernelRequest& request) {
  return std::make_unique<LocalResponseNormFormula>(op, request.inputs[0].spec.shape);
}

}  // namespace soapstone::compute
