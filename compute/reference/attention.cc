#include <algorithm>
#include <cmath>

#include "compute/reference/formula.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

// p_s = exp(a_s) / Σ exp(a)
Reals AttentionSoftmax(const Reals& a) {
  const double largest = *std::max_element(a.begin(), a.end());
  Reals p(a.size());
  double sum = 0;
  for (size_t s = 0; s < a.size(); ++s) sum += p[s] = std::exp(a[s] - largest);
  for (double& v : p) v /= sum;
  return p;
}

// da_s = p_s·(dp_s − Σ p·dp)
Reals AttentionSoftmaxGrad(const Reals& p, const Reals& dp) {
  double mean = 0;
  for (size_t s = 0; s < p.size(); ++s) mean += p[s] * dp[s];
  Reals da(p.size());
  for (size_t s = 0; s < p.size(); ++s) da[s] = p[s] * (dp[s] - mean);
  return da;
}

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

class PairwiseDotFormula : public Formula {
 public:
  explicit PairwiseDotFormula(const KernelRequest& request)
      : Formula({}),
        n_(request.inputs[0].spec.shape[0]),
        f_(request.inputs[0].spec.shape[1]),
        d_(request.inputs[0].spec.shape[2]) {}

  // y_ij = Σ_d x_id·x_jd
  void Forward(FormulaTensors* t) const override {
    const Reals& x = t->inputs[0];
    ForEachPair([&](int64_t y, int64_t i, int64_t j) {
      for (int64_t d = 0; d < d_; ++d) t->outputs[0][y] += x[i + d] * x[j + d];
    });
  }

  // dx_i += dy_ij·x_j;  dx_j += dy_ij·x_i
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    const Reals& x = t.inputs[0];
    ForEachPair([&](int64_t y, int64_t i, int64_t j) {
      for (int64_t d = 0; d < d_; ++d) {
        g->inputs[0][i + d] += g->outputs[0][y] * x[j + d];
        g->inputs[0][j + d] += g->outputs[0][y] * x[i + d];
      }
    });
  }

 private:
  // body(element of y, first element of x_i, first element of x_j)
  template <class Body>
  void ForEachPair(const Body& body) const {
    int64_t y = 0;
    for (int64_t n = 0; n < n_; ++n) {
      for (int64_t i = 0; i < f_; ++i) {
        for (int64_t j = 0; j < i; ++j) body(y++, (n * f_ + i) * d_, (n * f_ + j) * d_);
      }
    }
  }

  const int64_t n_, f_, d_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const MultiHeadAttention& op, const KernelRequest& request) {
  return std::make_unique<MultiHeadFormula>(op, request);
}

std::unique_ptr<Formula> MakeFormula(const AdditiveAttention&, const KernelRequest& request) {
  return std::make_unique<AdditiveFormula>(request);
}

std::unique_ptr<Formula> MakeFormula(const PairwiseDot&, const KernelRequest& request) {
  return std::make_unique<PairwiseDotFormula>(request);
}

}  // namespace soapstone::compute
