#include "compute/dropout_mask.h"
#include "compute/reference/formula.h"

namespace soapstone::compute {
namespace {

class DropoutFormula : public Formula {
 public:
  DropoutFormula(const Dropout& op, const KernelRequest& request)
      : Formula({.inputs = false}),
        op_(op),
        training_(request.training),
        seed_(request.seed),
        op_index_(request.op_index),
        n_(request.inputs[0].spec.shape[0]),
        elements_(request.inputs[0].spec.elements() / n_) {}

  // y = m·x, m = 1/(1 − rate) if the element is kept, else 0; m = 1 in evaluation
  void Forward(FormulaTensors* t) const override {
    if (training_) {
      Mask(*t, t->inputs[0], &t->outputs[0]);
    } else {
      t->outputs[0] = t->inputs[0];
    }
  }
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    Mask(t, g->outputs[0], &g->inputs[0]);
  }

 private:
  void Mask(const FormulaTensors& t, const Reals& from, Reals* to) const {
    const CounterRandom stream = DropoutStream(seed_, t.step, op_index_);
    for (int64_t n = 0; n < n_; ++n) {
      for (int64_t e = 0; e < elements_; ++e) {
        const uint64_t block = DropoutBlock(t.first_sample + n, elements_, e / 4);
        const bool kept = stream.Block(block)[e % 4] >= DropoutThreshold(op_.rate);
        (*to)[n * elements_ + e] = kept ? from[n * elements_ + e] / (1 - op_.rate) : 0;
      }
    }
  }

  const Dropout op_;
  const bool training_;
  const uint64_t seed_;
  const uint32_t op_index_;
  const int64_t n_, elements_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const Dropout& op, const KernelRequest& request) {
  return std::make_unique<DropoutFormula>(op, request);
}

}  // namespace soapstone::compute
