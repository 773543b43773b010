#include <algorithm>
#include <cmath>
#include <vector>

#include "compute/reference/formula.h"

namespace soapstone::compute {
namespace {

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

std::unique_ptr<Formula> MakeFormula(const LocalResponseNorm& op, const KernelRequest& request) {
  return std::make_unique<LocalResponseNormFormula>(op, request.inputs[0].spec.shape);
}

}  // namespace soapstone::compute
