#include <cmath>

#include "compute/reference/attention_softmax.h"
#include "compute/reference/formula.h"

namespace soapstone::compute {
namespace {

class AdditiveFormula : public Formula {
 public:
  explicit AdditiveFormula(const KernelRequest& request)
      : Formula({}),
        n_(request.inputs[0].spec.shape[0]),
        t_(request.inputs[0].spec.shape[1]),
        s_(request.inputs[1].spec.shape[1]),
        d_(request.inputs[0].spec.shape[2]),
        e_(request.inputs[2].spec.shape[2]) {}

  // For each sample and t:  a_s = Σ_d v_d·tanh(q_t + k_s), p = softmax(a), y_t = Σ_s p_s·V_s
  void Forward(FormulaTensors* t) const override {
    for (int64_t n = 0; n < n_; ++n) {
      for (int64_t query = 0; query < t_; ++query) {
        const Reals p = AttentionSoftmax(ScoresOf(*t, n, query));
        for (int64_t s = 0; s < s_; ++s) {
          for (int64_t e = 0; e < e_; ++e) {
            t->outputs[0][(n * t_ + query) * e_ + e] += p[s] * t->inputs[2][(n * s_ + s) * e_ + e];
          }
        }
      }
    }
  }

  // dp_s = dy_t·V_s, da = softmax's;  dV_s += p_s·dy_t;  with z = tanh(q_t + k_s):
  // dv += da_s·z;  dq_t and dk_s += da_s·v·(1 − z²)
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    for (int64_t n = 0; n < n_; ++n) {
      for (int64_t query = 0; query < t_; ++query) {
        const Reals p = AttentionSoftmax(ScoresOf(t, n, query));
        Reals dp(s_);
        for (int64_t s = 0; s < s_; ++s) {
          for (int64_t e = 0; e < e_; ++e) {
            const double dy = g->outputs[0][(n * t_ + query) * e_ + e];
            dp[s] += dy * t.inputs[2][(n * s_ + s) * e_ + e];
            g->inputs[2][(n * s_ + s) * e_ + e] += p[s] * dy;
          }
        }
        const Reals da = AttentionSoftmaxGrad(p, dp);
        for (int64_t s = 0; s < s_; ++s) {
          for (int64_t d = 0; d < d_; ++d) {
            const int64_t q = (n * t_ + query) * d_ + d, k = (n * s_ + s) * d_ + d;
            const double z = std::tanh(t.inputs[0][q] + t.inputs[1][k]);
            const double dz = da[s] * t.params[0][d] * (1 - z * z);
            g->params[0][d] += da[s] * z;
            g->inputs[0][q] += dz;
            g->inputs[1][k] += dz;
          }
        }
      }
    }
  }

 private:
  Reals ScoresOf(const FormulaTensors& t, int64_t n, int64_t query) const {
    Reals a(s_);
    for (int64_t s = 0; s < s_; ++s) {
      for (int64_t d = 0; d < d_; ++d) {
        a[s] += t.params[0][d] * std::tanh(t.inputs[0][(n * t_ + query) * d_ + d] +
                                           t.inputs[1][(n * s_ + s) * d_ + d]);
      }
    }
    return a;
  }

  const int64_t n_, t_, s_, d_, e_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const AdditiveAttention&, const KernelRequest& request) {
  return std::make_unique<AdditiveFormula>(request);
}

}  // namespace soapstone::compute
