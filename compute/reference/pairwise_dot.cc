#include "compute/reference/formula.h"

namespace soapstone::compute {
namespace {

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

std::unique_ptr<Formula> MakeFormula(const PairwiseDot&, const KernelRequest& request) {
  return std::make_unique<PairwiseDotFormula>(request);
}

}  // namespace soapstone::compute
