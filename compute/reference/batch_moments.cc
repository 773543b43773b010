#include "compute/reference/channels.h"
#include "compute/reference/formula.h"

namespace soapstone::compute {
namespace {

class BatchMomentsFormula : public Formula {
 public:
  BatchMomentsFormula(const BatchMoments& op, const KernelRequest& request)
      : Formula({}), op_(op), x_(request.inputs[0].spec) {}

  // m = Σ x / n; q = Σ (x − m)², by channel
  void Forward(FormulaTensors* t) const override {
    for (int64_t c = 0; c < x_.count; ++c) {
      const double mean = MeanOf(t->inputs[0], c);
      double& squares = t->outputs[0][At(c) + 1];
      t->outputs[0][At(c)] = mean;
      x_.ForEach(
          c, [&](int64_t i) { squares += (t->inputs[0][i] - mean) * (t->inputs[0][i] - mean); });
    }
  }

  // dx = dm/n + 2·dq·(x − m)
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    const Reals& dy = g->outputs[0];
    for (int64_t c = 0; c < x_.count; ++c) {
      const double mean = MeanOf(t.inputs[0], c);
      x_.ForEach(c, [&](int64_t i) {
        g->inputs[0][i] = dy[At(c)] / x_.elements() + 2 * dy[At(c) + 1] * (t.inputs[0][i] - mean);
      });
    }
  }

 private:
  size_t At(int64_t c) const { return static_cast<size_t>((op_.row * x_.count + c) * 2); }
  double MeanOf(const Reals& x, int64_t c) const {
    double mean = 0;
    x_.ForEach(c, [&](int64_t i) { mean += x[i] / x_.elements(); });
    return mean;
  }

  const BatchMoments op_;
  const Channels x_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const BatchMoments& op, const KernelRequest& request) {
  return std::make_unique<BatchMomentsFormula>(op, request);
}

}  // namespace soapstone::compute
