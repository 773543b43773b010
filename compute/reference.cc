#include "compute/reference.h"

#include <vector>

namespace soapstone::compute {
namespace {

class ReferenceLinear : public Kernel {
 public:
  explicit ReferenceLinear(const LinearShape& shape) : s_(shape) {}

  // Y[n,o] = b[o] + Σ_i X[n,i]·W[o,i]
  void Forward(const ForwardArgs& a) override {
    for (int64_t n = 0; n < s_.samples; ++n) {
      for (int64_t o = 0; o < s_.outputs; ++o) {
        double sum = a.bias[o];
        for (int64_t i = 0; i < s_.inputs; ++i) {
          sum += double{a.input[n * s_.inputs + i]} * a.weight[o * s_.inputs + i];
        }
        a.output[n * s_.outputs + o] = static_cast<float>(sum);
      }
    }
  }

  // dX[n,i] = Σ_o dY[n,o]·W[o,i];  dW[o,i] = Σ_n dY[n,o]·X[n,i];  db[o] = Σ_n dY[n,o]
  void Backward(const BackwardArgs& a) override {
    std::vector<double> dx(s_.input_size());
    std::vector<double> dw(s_.weight_size());
    std::vector<double> db(s_.outputs);
    for (int64_t n = 0; n < s_.samples; ++n) {
      for (int64_t o = 0; o < s_.outputs; ++o) {
        const double dy = a.output_grad[n * s_.outputs + o];
        db[o] += dy;
        for (int64_t i = 0; i < s_.inputs; ++i) {
          dx[n * s_.inputs + i] += dy * a.weight[o * s_.inputs + i];
          dw[o * s_.inputs + i] += dy * a.input[n * s_.inputs + i];
        }
      }
    }
    for (size_t i = 0; i < a.input_grad.size(); ++i) a.input_grad[i] = static_cast<float>(dx[i]);
    for (size_t i = 0; i < dw.size(); ++i) a.weight_grad[i] = static_cast<float>(dw[i]);
    for (size_t i = 0; i < db.size(); ++i) a.bias_grad[i] = static_cast<float>(db[i]);
  }

 private:
  const LinearShape s_;
};

class ReferenceConv2d : public Kernel {
 public:
  explicit ReferenceConv2d(const Conv2dShape& shape) : s_(shape) {}

  // Y[n,o,y,x] = b[o] + Σ_{c,i,j} X[n,c,y·stride+i−padding,x·stride+j−padding]·W[o,c,i,j],
  // X being 0 outside the image.
  void Forward(const ForwardArgs& a) override {
    std::vector<double> out(s_.output_size());
    const int64_t pixels = s_.out_height() * s_.out_width();
    for (size_t at = 0; at < out.size(); ++at) out[at] = a.bias[at / pixels % s_.out_channels];
    ForEachTap([&](int64_t in, int64_t weight, int64_t at) {
      out[at] += double{a.input[in]} * a.weight[weight];
    });
    for (size_t at = 0; at < out.size(); ++at) a.output[at] = static_cast<float>(out[at]);
  }

  // The same taps, each passing dY to its input and its weight; db[o] = Σ_{n,y,x} dY[n,o,y,x]
  void Backward(const BackwardArgs& a) override {
    std::vector<double> dx(s_.input_size());
    std::vector<double> dw(s_.weight_size());
    std::vector<double> db(s_.out_channels);
    const int64_t pixels = s_.out_height() * s_.out_width();
    for (size_t at = 0; at < a.output_grad.size(); ++at) {
      db[at / pixels % s_.out_channels] += a.output_grad[at];
    }
    ForEachTap([&](int64_t in, int64_t weight, int64_t at) {
      dx[in] += double{a.output_grad[at]} * a.weight[weight];
      dw[weight] += double{a.output_grad[at]} * a.input[in];
    });
    for (size_t i = 0; i < a.input_grad.size(); ++i) a.input_grad[i] = static_cast<float>(dx[i]);
    for (size_t i = 0; i < dw.size(); ++i) a.weight_grad[i] = static_cast<float>(dw[i]);
    for (size_t i = 0; i < db.size(); ++i) a.bias_grad[i] = static_cast<float>(db[i]);
  }

 private:
  // Calls f(input index, weight index, output index) for each product of the convolution.
  template <typename F>
  void ForEachTap(F f) const {
    for (int64_t n = 0; n < s_.samples; ++n) {
      for (int64_t o = 0; o < s_.out_channels; ++o) {
        for (int64_t y = 0; y < s_.out_height(); ++y) {
          for (int64_t x = 0; x < s_.out_width(); ++x) ForEachTapOf(n, o, y, x, f);
        }
      }
    }
  }

  template <typename F>
  void ForEachTapOf(int64_t n, int64_t o, int64_t y, int64_t x, F f) const {
    const int64_t out = ((n * s_.out_channels + o) * s_.out_height() + y) * s_.out_width() + x;
    for (int64_t c = 0; c < s_.in_channels; ++c) {
      for (int64_t i = 0; i < s_.kernel; ++i) {
        for (int64_t j = 0; j < s_.kernel; ++j) {
          const int64_t h = y * s_.stride + i - s_.padding;
          const int64_t w = x * s_.stride + j - s_.padding;
          if (h < 0 || h >= s_.height || w < 0 || w >= s_.width) continue;
          f(((n * s_.in_channels + c) * s_.height + h) * s_.width + w,
            ((o * s_.in_channels + c) * s_.kernel + i) * s_.kernel + j, out);
        }
      }
    }
  }

  const Conv2dShape s_;
};

class ReferencePool : public Kernel {
 public:
  explicit ReferencePool(const PoolShape& shape) : s_(shape) {}

  // max: Y = max over the window (the first of equals);  average: Y = Σ window / kernel²
  void Forward(const ForwardArgs& a) override {
    winner_.assign(s_.output_size(), 0);
    ForEachWindow([&](int64_t out, const std::vector<int64_t>& window) {
      double sum = 0;
      int64_t best = window[0];
      for (int64_t at : window) {
        sum += a.input[at];
        if (a.input[at] > a.input[best]) best = at;
      }
      winner_[out] = best;
      a.output[out] = s_.kind == PoolKind::kMax
                          ? a.input[best]
                          : static_cast<float>(sum / static_cast<double>(window.size()));
    });
  }

  void Backward(const BackwardArgs& a) override {
    std::vector<double> dx(s_.input_size());
    ForEachWindow([&](int64_t out, const std::vector<int64_t>& window) {
      const double dy = a.output_grad[out];
      if (s_.kind == PoolKind::kMax) {
        dx[winner_[out]] += dy;
        return;
      }
      for (int64_t at : window) dx[at] += dy / static_cast<double>(window.size());
    });
    for (size_t i = 0; i < dx.size(); ++i) a.input_grad[i] = static_cast<float>(dx[i]);
  }

 private:
  // Calls f(output index, the input indexes of its window).
  template <typename F>
  void ForEachWindow(F f) const {
    int64_t out = 0;
    std::vector<int64_t> window(s_.kernel * s_.kernel);
    for (int64_t plane = 0; plane < s_.samples * s_.channels; ++plane) {
      for (int64_t y = 0; y < s_.out_height(); ++y) {
        for (int64_t x = 0; x < s_.out_width(); ++x) {
          for (int64_t k = 0; k < s_.kernel * s_.kernel; ++k) {
            window[k] = (plane * s_.height + y * s_.stride + k / s_.kernel) * s_.width +
                        x * s_.stride + k % s_.kernel;
          }
          f(out++, window);
        }
      }
    }
  }

  const PoolShape s_;
  std::vector<int64_t> winner_;
};

class ReferenceRelu : public Kernel {
 public:
  explicit ReferenceRelu(int64_t elements) : n_(elements) {}

  // Y = max(X, 0)
  void Forward(const ForwardArgs& a) override {
    for (int64_t i = 0; i < n_; ++i) a.output[i] = a.input[i] > 0 ? a.input[i] : 0.0f;
  }

  // dX = dY·[X > 0]
  void Backward(const BackwardArgs& a) override {
    for (int64_t i = 0; i < n_; ++i) a.input_grad[i] = a.input[i] > 0 ? a.output_grad[i] : 0.0f;
  }

 private:
  const int64_t n_;
};

}  // namespace

std::unique_ptr<Kernel> MakeReferenceLinear(const LinearShape& shape) {
  return std::make_unique<ReferenceLinear>(shape);
}
std::unique_ptr<Kernel> MakeReferenceConv2d(const Conv2dShape& shape) {
  return std::make_unique<ReferenceConv2d>(shape);
}
std::unique_ptr<Kernel> MakeReferencePool(const PoolShape& shape) {
  return std::make_unique<ReferencePool>(shape);
}
std::unique_ptr<Kernel> MakeReferenceRelu(int64_t elements) {
  return std::make_unique<ReferenceRelu>(elements);
}

}  // namespace soapstone::compute
