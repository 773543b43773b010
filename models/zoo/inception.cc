// inception_v3 (Szegedy et al. 2016) without its auxiliary head: A A A B C C C C D E E. Names as
// torchvision's.
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/zoo/zoo_models.h"

namespace soapstone::models {
namespace {

using compute::BatchNorm;
using compute::Concat;
using compute::Conv2d;
using compute::Pool;
using compute::PoolKind;
using compute::Window;

class Inception {
 public:
  explicit Inception(const ModelSpec& spec) : spec_(spec) {}

  absl::StatusOr<Graph> Build() {
    const bool tiny = spec_.tiny;
    TensorId x = Stem(b_.Input(
        "input", DataType::kFloat32,
        spec_.image(tiny ? std::vector<int64_t>{1, 28, 28} : std::vector<int64_t>{3, 299, 299})));
    x = A("Mixed_5b", x, 32);
    x = A("Mixed_5c", x, 64);
    x = A("Mixed_5d", x, 64);
    x = B("Mixed_6a", x);
    x = C("Mixed_6b", x, 128);
    x = C("Mixed_6c", x, 160);
    x = C("Mixed_6d", x, 160);
    x = C("Mixed_6e", x, 192);
    x = D("Mixed_7a", x);
    x = E("Mixed_7b", x);
    x = E("Mixed_7c", x);
    x = b_.Apply("avgpool", compute::Reduce{.axes = {2, 3}}, {x});
    const double rate = spec_.option("dropout", tiny ? 0 : 0.5);
    if (rate > 0) x = b_.Apply("dropout", compute::Dropout{.rate = rate}, {x});
    b_.Loss("loss",
            b_.Apply("fc", compute::Linear{.outputs = spec_.classes(tiny ? 10 : 1000)}, {x}));
    return b_.Build();
  }

 private:
  // Tiny: an eighth of the channels, and a stem that keeps small images.
  TensorId Conv(const std::string& name, TensorId x, int64_t channels, const Window& window) {
    const int64_t c = spec_.tiny ? std::max<int64_t>(4, channels / 8) : channels;
    x = b_.Apply(name + ".conv", Conv2d{.channels = c, .window = window, .bias = false}, {x});
    return b_.Apply(name + ".bn", BatchNorm{.epsilon = 1e-3, .relu = true}, {x});
  }
  static Window Row(int64_t width) { return {.height = 1, .width = width, .pad_w = width / 2}; }
  static Window Column(int64_t height) {
    return {.height = height, .width = 1, .pad_h = height / 2};
  }
  TensorId Average(const std::string& name, TensorId x) {
    return b_.Apply(name, Pool{.kind = PoolKind::kAverage, .window = Window::Square(3, 1, 1)}, {x});
  }
  TensorId Halve(const std::string& name, TensorId x, int64_t pad = 0) {
    return b_.Apply(name, Pool{.kind = PoolKind::kMax, .window = Window::Square(3, 2, pad)}, {x});
  }
  TensorId Join(const std::string& name, std::vector<TensorId> parts) {
    return b_.Apply(name, Concat{.axis = 1}, std::move(parts));
  }

  TensorId Stem(TensorId x) {
    const bool tiny = spec_.tiny;
    const int64_t pad = tiny ? 1 : 0;
    x = Conv("Conv2d_1a_3x3", x, 32, Window::Square(3, tiny ? 1 : 2, pad));
    x = Conv("Conv2d_2a_3x3", x, 32, Window::Square(3, 1, pad));
    x = Conv("Conv2d_2b_3x3", x, 64, Window::Square(3, 1, 1));
    x = Halve("maxpool1", x, pad);
    x = Conv("Conv2d_3b_1x1", x, 80, Window::Square(1));
    x = Conv("Conv2d_4a_3x3", x, 192, Window::Square(3, 1, pad));
    return Halve("maxpool2", x, pad);
  }

  TensorId A(const std::string& n, TensorId x, int64_t pool_channels) {
    const TensorId one = Conv(n + ".branch1x1", x, 64, Window::Square(1));
    TensorId five = Conv(n + ".branch5x5_1", x, 48, Window::Square(1));
    five = Conv(n + ".branch5x5_2", five, 64, Window::Square(5, 1, 2));
    TensorId three = Conv(n + ".branch3x3dbl_1", x, 64, Window::Square(1));
    three = Conv(n + ".branch3x3dbl_2", three, 96, Window::Square(3, 1, 1));
    three = Conv(n + ".branch3x3dbl_3", three, 96, Window::Square(3, 1, 1));
    const TensorId pool =
        Conv(n + ".branch_pool", Average(n + ".pool", x), pool_channels, Window::Square(1));
    return Join(n, {one, five, three, pool});
  }

  TensorId B(const std::string& n, TensorId x) {
    const TensorId three = Conv(n + ".branch3x3", x, 384, Window::Square(3, 2));
    TensorId twice = Conv(n + ".branch3x3dbl_1", x, 64, Window::Square(1));
    twice = Conv(n + ".branch3x3dbl_2", twice, 96, Window::Square(3, 1, 1));
    twice = Conv(n + ".branch3x3dbl_3", twice, 96, Window::Square(3, 2));
    return Join(n, {three, twice, Halve(n + ".pool", x)});
  }

  TensorId C(const std::string& n, TensorId x, int64_t c) {
    const TensorId one = Conv(n + ".branch1x1", x, 192, Window::Square(1));
    TensorId seven = Conv(n + ".branch7x7_1", x, c, Window::Square(1));
    seven = Conv(n + ".branch7x7_2", seven, c, Row(7));
    seven = Conv(n + ".branch7x7_3", seven, 192, Column(7));
    TensorId twice = Conv(n + ".branch7x7dbl_1", x, c, Window::Square(1));
    twice = Conv(n + ".branch7x7dbl_2", twice, c, Column(7));
    twice = Conv(n + ".branch7x7dbl_3", twice, c, Row(7));
    twice = Conv(n + ".branch7x7dbl_4", twice, c, Column(7));
    twice = Conv(n + ".branch7x7dbl_5", twice, 192, Row(7));
    const TensorId pool = Conv(n + ".branch_pool", Average(n + ".pool", x), 192, Window::Square(1));
    return Join(n, {one, seven, twice, pool});
  }

  TensorId D(const std::string& n, TensorId x) {
    TensorId three = Conv(n + ".branch3x3_1", x, 192, Window::Square(1));
    three = Conv(n + ".branch3x3_2", three, 320, Window::Square(3, 2));
    TensorId seven = Conv(n + ".branch7x7x3_1", x, 192, Window::Square(1));
    seven = Conv(n + ".branch7x7x3_2", seven, 192, Row(7));
    seven = Conv(n + ".branch7x7x3_3", seven, 192, Column(7));
    seven = Conv(n + ".branch7x7x3_4", seven, 192, Window::Square(3, 2));
    return Join(n, {three, seven, Halve(n + ".pool", x)});
  }

  TensorId E(const std::string& n, TensorId x) {
    const TensorId one = Conv(n + ".branch1x1", x, 320, Window::Square(1));
    const TensorId three = Conv(n + ".branch3x3_1", x, 384, Window::Square(1));
    const TensorId three_a = Conv(n + ".branch3x3_2a", three, 384, Row(3));
    const TensorId three_b = Conv(n + ".branch3x3_2b", three, 384, Column(3));
    TensorId twice = Conv(n + ".branch3x3dbl_1", x, 448, Window::Square(1));
    twice = Conv(n + ".branch3x3dbl_2", twice, 384, Window::Square(3, 1, 1));
    const TensorId twice_a = Conv(n + ".branch3x3dbl_3a", twice, 384, Row(3));
    const TensorId twice_b = Conv(n + ".branch3x3dbl_3b", twice, 384, Column(3));
    const TensorId pool = Conv(n + ".branch_pool", Average(n + ".pool", x), 192, Window::Square(1));
    return Join(n, {one, three_a, three_b, twice_a, twice_b, pool});
  }

  GraphBuilder b_{"inception_v3"};
  const ModelSpec& spec_;
};

}  // namespace

absl::StatusOr<Graph> BuildInceptionV3(const ModelSpec& spec) { return Inception(spec).Build(); }

}  // namespace soapstone::models
