#include <algorithm>
#include <cmath>

#include "compute/reference/formula.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

class SoftmaxCrossEntropyFormula : public Formula {
 public:
  explicit SoftmaxCrossEntropyFormula(const TensorSpec& logits)
      : Formula({}),
        n_(logits.shape[0]),
        v_(logits.shape.back()),
        places_(logits.elements() / (n_ * v_)) {}

  // loss_n = mean_p(log Σ_v exp(x_v) − x_label), hits_n = mean_p[argmax x = label], over the places
  // p of sample n with a label (0 if there are none)
  void Forward(FormulaTensors* t) const override {
    ForEachLabel(*t, [&](int64_t n, int64_t place, int64_t label, double share) {
      const double* x = &t->inputs[0][place * v_];
      t->outputs[0][n] += share * (LogSumExp(x) - x[label]);
      if (std::max_element(x, x + v_) - x == label) t->outputs[1][n] += share;
    });
  }

  // dx_v = (softmax(x)_v − [v = label]) / labels of the sample
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    ForEachLabel(t, [&](int64_t, int64_t place, int64_t label, double share) {
      const double* x = &t.inputs[0][place * v_];
      for (int64_t v = 0; v < v_; ++v) {
        const double p = std::exp(x[v] - LogSumExp(x));
        g->inputs[0][place * v_ + v] = share * (p - (v == label ? 1 : 0));
      }
    });
  }

 private:
  double LogSumExp(const double* x) const {
    const double largest = *std::max_element(x, x + v_);
    double sum = 0;
    for (int64_t v = 0; v < v_; ++v) sum += std::exp(x[v] - largest);
    return largest + std::log(sum);
  }

  // body(sample, place in the batch, label, 1/labels of the sample)
  template <class Body>
  void ForEachLabel(const FormulaTensors& t, const Body& body) const {
    for (int64_t n = 0; n < n_; ++n) {
      const double* labels = &t.inputs[1][n * places_];
      const int64_t absent = std::count(labels, labels + places_, -1.0);
      for (int64_t p = 0; p < places_; ++p) {
        if (labels[p] == -1.0) continue;
        const int64_t label = static_cast<int64_t>(labels[p]);
        CHECK(label >= 0 && label < v_) << "label " << label << " of " << v_ << " classes";
        body(n, n * places_ + p, label, 1 / static_cast<double>(places_ - absent));
      }
    }
  }

  const int64_t n_, v_, places_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const SoftmaxCrossEntropy&, const KernelRequest& request) {
  return std::make_unique<SoftmaxCrossEntropyFormula>(request.inputs[0].spec);
}

}  // namespace soapstone::compute
