#include <algorithm>

#include "compute/reference/formula.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

class PoolFormula : public Formula {
 public:
  PoolFormula(const Pool& op, const std::vector<int64_t>& x)
      : Formula({.inputs = op.kind == PoolKind::kMax}),
        op_(op),
        images_(x[0] * x[1]),
        h_(x[2]),
        w_(x[3]) {}

  // kMax: Y = X at the window's largest element; kAverage: Y = Σ_{window} X / divisor
  void Forward(FormulaTensors* t) const override {
    const Reals& x = t->inputs[0];
    ForEachWindow([&](const std::vector<int64_t>& inside, int64_t at) {
      if (op_.kind == PoolKind::kMax) {
        t->outputs[0][at] = x[LargestOf(x, inside)];
        return;
      }
      for (int64_t i : inside) t->outputs[0][at] += x[i] / DivisorOf(inside);
    });
  }

  // kMax: dY to the largest, the first of equals; kAverage: dY / divisor to each
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    ForEachWindow([&](const std::vector<int64_t>& inside, int64_t at) {
      const double dy = g->outputs[0][at];
      if (op_.kind == PoolKind::kMax) {
        g->inputs[0][LargestOf(t.inputs[0], inside)] += dy;
        return;
      }
      for (int64_t i : inside) g->inputs[0][i] += dy / DivisorOf(inside);
    });
  }

 private:
  static int64_t LargestOf(const Reals& x, const std::vector<int64_t>& inside) {
    return *std::max_element(inside.begin(), inside.end(),
                             [&](int64_t a, int64_t b) { return x[a] < x[b]; });
  }
  double DivisorOf(const std::vector<int64_t>& inside) const {
    return op_.count_padding ? static_cast<double>(op_.window.height * op_.window.width)
                             : static_cast<double>(inside.size());
  }

  // body(indices in X of the window's elements inside the image, index in Y)
  template <class Body>
  void ForEachWindow(const Body& body) const {
    const Window& window = op_.window;
    int64_t at = 0;
    for (int64_t image = 0; image < images_; ++image) {
      for (int64_t p = 0; p < window.out_height(h_); ++p) {
        for (int64_t q = 0; q < window.out_width(w_); ++q) body(Inside(image, p, q), at++);
      }
    }
  }

  std::vector<int64_t> Inside(int64_t image, int64_t p, int64_t q) const {
    const Window& window = op_.window;
    std::vector<int64_t> inside;
    for (int64_t i = 0; i < window.height; ++i) {
      for (int64_t j = 0; j < window.width; ++j) {
        const int64_t row = p * window.stride_h + i - window.pad_h;
        const int64_t column = q * window.stride_w + j - window.pad_w;
        if (row < 0 || row >= h_ || column < 0 || column >= w_) continue;
        inside.push_back((image * h_ + row) * w_ + column);
      }
    }
    CHECK(!inside.empty()) << "a window of padding alone";
    return inside;
  }

  const Pool op_;
  const int64_t images_, h_, w_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const Pool& op, const KernelRequest& request) {
  return std::make_unique<PoolFormula>(op, request.inputs[0].spec.shape);
}

}  // namespace soapstone::compute
