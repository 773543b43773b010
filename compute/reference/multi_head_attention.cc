#include <cmath>

#include "compute/reference/attention_softmax.h"
#include "compute/reference/formula.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

class MultiHeadFormula : public Formula {
 public:
  MultiHeadFormula(const MultiHeadAttention& op, const KernelRequest& request)
      : Formula({}),
        op_(op),
        n_(request.inputs[0].spec.shape[0]),
        t_(request.inputs[0].spec.shape[1]),
        s_(request.inputs[1].spec.shape[1]),
        d_(request.inputs[0].spec.shape[2]),
        head_(d_ / op.heads),
        scale_(1 / std::sqrt(static_cast<double>(head_))) {
    CHECK_EQ(d_ % op_.heads, 0);
    CHECK(!op_.causal || t_ == s_);
  }

  // For each sample, head and t:  a_s = q_t·k_s/√(D/heads), p = softmax(a), y_t = Σ_s p_s·v_s
  void Forward(FormulaTensors* t) const override {
    ForEachQuery([&](const Query& at) {
      const Reals p = AttentionSoftmax(ScoresOf(*t, at));
      for (size_t s = 0; s < p.size(); ++s) {
        for (int64_t e = 0; e < head_; ++e) {
          t->outputs[0][at.q + e] += p[s] * t->inputs[2][at.k + s * d_ + e];
        }
      }
    });
  }

  // dp_s = dy_t·v_s, da = softmax's;  dv_s += p_s·dy_t;
  // dq_t += da_s·k_s/√(D/heads);  dk_s += da_s·q_t/√(D/heads)
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    const Reals &q = t.inputs[0], &k = t.inputs[1], &v = t.inputs[2], &dy = g->outputs[0];
    ForEachQuery([&](const Query& at) {
      const Reals p = AttentionSoftmax(ScoresOf(t, at));
      Reals dp(p.size());
      for (size_t s = 0; s < p.size(); ++s) {
        for (int64_t e = 0; e < head_; ++e) {
          dp[s] += dy[at.q + e] * v[at.k + s * d_ + e];
          g->inputs[2][at.k + s * d_ + e] += p[s] * dy[at.q + e];
        }
      }
      const Reals da = AttentionSoftmaxGrad(p, dp);
      for (size_t s = 0; s < p.size(); ++s) {
        for (int64_t e = 0; e < head_; ++e) {
          g->inputs[0][at.q + e] += da[s] * scale_ * k[at.k + s * d_ + e];
          g->inputs[1][at.k + s * d_ + e] += da[s] * scale_ * q[at.q + e];
        }
      }
    });
  }

 private:
  // Of one sample and head: index of q_t, index of k_0 (and of v_0), how many keys it sees.
  struct Query {
    int64_t q, k, keys;
  };
  template <class Body>
  void ForEachQuery(const Body& body) const {
    for (int64_t n = 0; n < n_; ++n) {
      for (int64_t head = 0; head < op_.heads; ++head) {
        for (int64_t t = 0; t < t_; ++t) {
          body(Query{.q = (n * t_ + t) * d_ + head * head_,
                     .k = n * s_ * d_ + head * head_,
                     .keys = op_.causal ? t + 1 : s_});
        }
      }
    }
  }
  Reals ScoresOf(const FormulaTensors& t, const Query& at) const {
    Reals a(at.keys);
    for (int64_t s = 0; s < at.keys; ++s) {
      for (int64_t e = 0; e < head_; ++e) {
        a[s] += t.inputs[0][at.q + e] * t.inputs[1][at.k + s * d_ + e] * scale_;
      }
    }
    return a;
  }

  const MultiHeadAttention op_;
  const int64_t n_, t_, s_, d_, head_;
  const double scale_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const MultiHeadAttention& op, const KernelRequest& request) {
  return std::make_unique<MultiHeadFormula>(op, request);
}

}  // namespace soapstone::compute
