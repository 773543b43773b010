#include <algorithm>
#include <cmath>
#include <utility>

#include "compute/reference/channels.h"
#include "compute/reference/formula.h"

namespace soapstone::compute {
namespace {

class NormalizeByMomentsFormula : public Formula {
 public:
  NormalizeByMomentsFormula(const NormalizeByMoments& op, const KernelRequest& request)
      : Formula({}), op_(op), training_(request.training), x_(request.inputs[0].spec) {
    for (const int64_t count : op.counts) all_ += static_cast<double>(count);
  }

  // y = γ·(x − μ)/s + β, s = √(σ² + ε); μ, σ²: of all rows
  void Forward(FormulaTensors* t) const override {
    for (int64_t c = 0; c < x_.count; ++c) {
      const auto [mean, variance] =
          training_ ? Combine(t->inputs[1], c) : Moments{t->params[2][c], t->params[3][c]};
      const double s = std::sqrt(variance + op_.epsilon);
      x_.ForEach(c, [&, mu = mean](int64_t i) {
        t->outputs[0][i] = t->params[0][c] * (t->inputs[0][i] - mu) / s + t->params[1][c];
      });
    }
  }

  // dx = γ/s·dy;  dμ = −γ/s·Σ dy;  dσ² = −γ/(2s³)·Σ dy·(x − μ)
  // dm_k = n_k/Σn·(dμ + 2·dσ²·(m_k − μ));  dq_k = dσ²/Σn
  // running: n·(r − r_now), n = samples·(own elements)/Σn
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    const Reals &x = t.inputs[0], &rows = t.inputs[1], &dy = g->outputs[0];
    for (int64_t c = 0; c < x_.count; ++c) {
      const Moments now = Combine(rows, c);
      const double s = std::sqrt(now.variance + op_.epsilon);
      const double scale = t.params[0][c] / s;
      double dyx = 0;
      x_.ForEach(c, [&](int64_t i) {
        g->params[1][c] += dy[i];
        dyx += dy[i] * (x[i] - now.mean);
        g->inputs[0][i] = scale * dy[i];
      });
      g->params[0][c] = dyx / s;
      const double of_mean = -scale * g->params[1][c];
      const double of_variance = -scale / (s * s) / 2 * dyx;
      for (size_t k = 0; k < op_.counts.size(); ++k) {
        const double n = static_cast<double>(op_.counts[k]);
        g->inputs[1][At(k, c)] =
            n / all_ * (of_mean + 2 * of_variance * (rows[At(k, c)] - now.mean));
        g->inputs[1][At(k, c) + 1] = of_variance / all_;
      }
      const double share = static_cast<double>(op_.samples) * x_.elements() / all_;
      g->params[2][c] = share * (t.params[2][c] - now.mean);
      g->params[3][c] = share * (t.params[3][c] - now.variance * all_ / std::max(all_ - 1, 1.0));
    }
  }

 private:
  struct Moments {
    double mean, variance;
  };
  size_t At(size_t row, int64_t c) const {
    return 2 * (row * static_cast<size_t>(x_.count) + static_cast<size_t>(c));
  }
  Moments Combine(const Reals& rows, int64_t c) const {
    Moments of = {0, 0};
    for (size_t k = 0; k < op_.counts.size(); ++k) {
      of.mean += static_cast<double>(op_.counts[k]) * rows[At(k, c)] / all_;
    }
    for (size_t k = 0; k < op_.counts.size(); ++k) {
      const double off = rows[At(k, c)] - of.mean;
      of.variance += (rows[At(k, c) + 1] + static_cast<double>(op_.counts[k]) * off * off) / all_;
    }
    return of;
  }

  const NormalizeByMoments op_;
  const bool training_;
  const Channels x_;
  double all_ = 0;  // elements of a channel, of all rows
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const NormalizeByMoments& op, const KernelRequest& request) {
  auto norm = std::make_unique<NormalizeByMomentsFormula>(op, request);
  if (!op.relu) return norm;
  return std::make_unique<ReluOf>(std::move(norm));
}

}  // namespace soapstone::compute
