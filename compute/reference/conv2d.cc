#include "compute/reference/formula.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

class Conv2dFormula : public Formula {
 public:
  Conv2dFormula(const Conv2d& op, const std::vector<int64_t>& x)
      : Formula({}), op_(op), n_(x[0]), c_(x[1]), h_(x[2]), w_(x[3]) {
    CHECK(c_ % op_.groups == 0 && op_.channels % op_.groups == 0);
  }

  // Y[n,o,p,q] = b[o] + Σ_{c,i,j} X[n,c,p·stride+i−pad,q·stride+j−pad]·W[o,c,i,j], X being 0
  // outside the image; c runs over the channels of o's group
  void Forward(FormulaTensors* t) const override {
    Reals& y = t->outputs[0];
    if (op_.bias) {
      for (size_t at = 0; at < y.size(); ++at) y[at] = t->params[1][ChannelOf(at)];
    }
    ForEachTap(
        [&](int64_t x, int64_t w, int64_t at) { y[at] += t->inputs[0][x] * t->params[0][w]; });
  }

  // The same taps, each passing dY to its input and its weight; db[o] = Σ_{n,p,q} dY[n,o,p,q]
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    const Reals& dy = g->outputs[0];
    if (op_.bias) {
      for (size_t at = 0; at < dy.size(); ++at) g->params[1][ChannelOf(at)] += dy[at];
    }
    ForEachTap([&](int64_t x, int64_t w, int64_t at) {
      g->inputs[0][x] += dy[at] * t.params[0][w];
      g->params[0][w] += dy[at] * t.inputs[0][x];
    });
  }

 private:
  int64_t ChannelOf(size_t at) const {
    return static_cast<int64_t>(at) / (op_.window.out_height(h_) * op_.window.out_width(w_)) %
           op_.channels;
  }

  // tap(index in X, index in W, index in Y)
  template <class Tap>
  void ForEachTap(const Tap& tap) const {
    const int64_t channels = c_ / op_.groups;  // of X for one of Y
    const int64_t pixels = op_.window.out_height(h_) * op_.window.out_width(w_);
    for (int64_t n = 0; n < n_; ++n) {
      for (int64_t o = 0; o < op_.channels; ++o) {
        const int64_t group = o / (op_.channels / op_.groups);
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t image = (n * c_ + group * channels + c) * h_ * w_;
          const int64_t window = (o * channels + c) * op_.window.height * op_.window.width;
          ForEachTapOfImage([&](int64_t x, int64_t w, int64_t y) {
            tap(image + x, window + w, (n * op_.channels + o) * pixels + y);
          });
        }
      }
    }
  }

  template <class Tap>
  void ForEachTapOfImage(const Tap& tap) const {
    const Window& window = op_.window;
    for (int64_t p = 0; p < window.out_height(h_); ++p) {
      for (int64_t q = 0; q < window.out_width(w_); ++q) {
        for (int64_t i = 0; i < window.height; ++i) {
          for (int64_t j = 0; j < window.width; ++j) {
            const int64_t row = p * window.stride_h + i - window.pad_h;
            const int64_t column = q * window.stride_w + j - window.pad_w;
            if (row < 0 || row >= h_ || column < 0 || column >= w_) continue;
            tap(row * w_ + column, i * window.width + j, p * window.out_width(w_) + q);
          }
        }
      }
    }
  }

  const Conv2d op_;
  const int64_t n_, c_, h_, w_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const Conv2d& op, const KernelRequest& request) {
  auto conv = std::make_unique<Conv2dFormula>(op, request.inputs[0].spec.shape);
  if (!op.relu) return conv;
  return std::make_unique<ReluOf>(std::move(conv));
}

}  // namespace soapstone::compute
