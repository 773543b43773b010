#include <cmath>

#include "compute/reference/formula.h"

namespace soapstone::compute {
namespace {

double LstmSigmoid(double x) { return 1 / (1 + std::exp(-x)); }

class LstmFormula : public Formula {
 public:
  LstmFormula(const Lstm& op, const std::vector<int64_t>& x)
      : Formula({}), op_(op), n_(x[0]), t_(x[1]), d_(x[2]), h_(op.hidden) {}

  void Forward(FormulaTensors* t) const override {
    const std::vector<Step> steps = StepsOf(*t);
    for (int64_t k = 0; k < t_; ++k) {
      for (int64_t n = 0; n < n_; ++n) {
        for (int64_t j = 0; j < h_; ++j) {
          t->outputs[0][(n * t_ + PlaceOf(k)) * h_ + j] = steps[k + 1].h[n * h_ + j];
        }
      }
    }
    if (!op_.state) return;
    t->outputs[1] = steps.back().h;
    t->outputs[2] = steps.back().c;
  }

  // From the last step to the first, with dh and dc of what follows a step:
  //   dh += dY;  dc += dh·o·(1 − tanh²(c));  di = dc·g, df = dc·c_{t−1}, dg = dc·i, do = dh·tanh(c)
  //   da = (di·i(1−i), df·f(1−f), dg·(1−g²), do·o(1−o));  then dc = dc·f, dh = W_hhᵀ·da,
  //   dx = W_ihᵀ·da, dW_ih += da·xᵀ, dW_hh += da·h_{t−1}ᵀ, db += da
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    const std::vector<Step> steps = StepsOf(t);
    Reals dh(n_ * h_), dc(n_ * h_);
    if (op_.state) {
      dh = g->outputs[1];
      dc = g->outputs[2];
    }
    for (int64_t k = t_ - 1; k >= 0; --k) {
      const Step &before = steps[k], &now = steps[k + 1];
      Reals da(n_ * 4 * h_);
      for (int64_t n = 0; n < n_; ++n) {
        for (int64_t j = 0; j < h_; ++j) {
          const int64_t at = n * h_ + j;
          dh[at] += g->outputs[0][(n * t_ + PlaceOf(k)) * h_ + j];
          const double* gates = &now.gates[n * 4 * h_ + j];
          const double i = gates[0], f = gates[h_], z = gates[2 * h_], o = gates[3 * h_];
          const double tanh_c = std::tanh(now.c[at]);
          dc[at] += dh[at] * o * (1 - tanh_c * tanh_c);
          double* to = &da[n * 4 * h_ + j];
          to[0] = dc[at] * z * i * (1 - i);
          to[h_] = dc[at] * before.c[at] * f * (1 - f);
          to[2 * h_] = dc[at] * i * (1 - z * z);
          to[3 * h_] = dh[at] * tanh_c * o * (1 - o);
          dc[at] *= f;
        }
      }
      dh = PassToInputs(t, PlaceOf(k), before.h, da, g);
    }
    if (!op_.state) return;
    g->inputs[1] = dh;
    g->inputs[2] = dc;
  }

 private:
  // After a step; gates [N, 4H] are i, f, g, o.
  struct Step {
    Reals h, c, gates;
  };

  // Of the k-th step that is done.
  int64_t PlaceOf(int64_t k) const { return op_.reverse ? t_ - 1 - k : k; }

  // The state before the first, then all steps in the order in which they are done.
  std::vector<Step> StepsOf(const FormulaTensors& t) const {
    std::vector<Step> steps;
    steps.push_back({.h = Reals(n_ * h_), .c = Reals(n_ * h_), .gates = {}});
    if (op_.state) steps[0] = {.h = t.inputs[1], .c = t.inputs[2], .gates = {}};
    for (int64_t k = 0; k < t_; ++k) steps.push_back(StepFrom(t, steps.back(), PlaceOf(k)));
    return steps;
  }

  // a = W_ih·x + W_hh·h_{t−1} + b;  i, f, o = σ(a), g = tanh(a)
  // c = f·c_{t−1} + i·g;  h = o·tanh(c)
  Step StepFrom(const FormulaTensors& t, const Step& before, int64_t place) const {
    const Reals &w_ih = t.params[0], &w_hh = t.params[1];
    Step step{.h = Reals(n_ * h_), .c = Reals(n_ * h_), .gates = Reals(n_ * 4 * h_)};
    for (int64_t n = 0; n < n_; ++n) {
      double* gates = &step.gates[n * 4 * h_];
      for (int64_t r = 0; r < 4 * h_; ++r) {
        double a = t.params[2][r];
        for (int64_t d = 0; d < d_; ++d) {
          a += w_ih[r * d_ + d] * t.inputs[0][(n * t_ + place) * d_ + d];
        }
        for (int64_t j = 0; j < h_; ++j) a += w_hh[r * h_ + j] * before.h[n * h_ + j];
        gates[r] = r / h_ == 2 ? std::tanh(a) : LstmSigmoid(a);
      }
      for (int64_t j = 0; j < h_; ++j) {
        const int64_t at = n * h_ + j;
        step.c[at] = gates[h_ + j] * before.c[at] + gates[j] * gates[2 * h_ + j];
        step.h[at] = gates[3 * h_ + j] * std::tanh(step.c[at]);
      }
    }
    return step;
  }

  // Adds what da [N, 4H] of one step gives to inputs and parameters; returns dh_{t−1} [N, H].
  Reals PassToInputs(const FormulaTensors& t, int64_t place, const Reals& h_before, const Reals& da,
                     FormulaGrads* g) const {
    Reals dh(n_ * h_);
    for (int64_t n = 0; n < n_; ++n) {
      for (int64_t r = 0; r < 4 * h_; ++r) {
        const double a = da[n * 4 * h_ + r];
        g->params[2][r] += a;
        for (int64_t d = 0; d < d_; ++d) {
          const int64_t x = (n * t_ + place) * d_ + d;
          g->inputs[0][x] += a * t.params[0][r * d_ + d];
          g->params[0][r * d_ + d] += a * t.inputs[0][x];
        }
        for (int64_t j = 0; j < h_; ++j) {
          dh[n * h_ + j] += a * t.params[1][r * h_ + j];
          g->params[1][r * h_ + j] += a * h_before[n * h_ + j];
        }
      }
    }
    return dh;
  }

  const Lstm op_;
  const int64_t n_, t_, d_, h_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const Lstm& op, const KernelRequest& request) {
  return std::make_unique<LstmFormula>(op, request.inputs[0].spec.shape);
}

}  // namespace soapstone::compute
