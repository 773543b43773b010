// nasnet_a (Zoph et al. 2018) in the form that graph substitution papers measure (Jia et al. 2019,
// TASO): 7×7/2 convolution, pooling, then three stages of normal cells and a reduction, without
// normalisation; here with a classifier at its end.
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/zoo/zoo_models.h"

namespace soapstone::models {
namespace {

using compute::Add;
using compute::Conv2d;
using compute::Pool;
using compute::PoolKind;
using compute::Window;

Window Same(int64_t size, int64_t stride = 1) { return Window::Square(size, stride, size / 2); }

// One cell: names count up within it.
class Cell {
 public:
  Cell(GraphBuilder* b, std::string name, int64_t channels)
      : b_(*b), name_(std::move(name)), channels_(channels) {}

  // In braces operators are added, and so numbered, from left to right; arguments have no order.
  TensorId Normal(TensorId before, TensorId in) {
    const TensorId cur = Squeeze(in);
    const TensorId prev = Fit(cur, before);
    return Join({Sum({Separable(cur, 3), cur}), Sum({Separable(prev, 3), Separable(cur, 5)}),
                 Sum({Average(cur), prev}), Sum({Average(prev), Average(prev)}),
                 Sum({Separable(prev, 5), Separable(prev, 3)})});
  }

  TensorId Reduction(TensorId before, TensorId in) {
    const TensorId cur = Squeeze(in);
    const TensorId prev = Fit(cur, before);
    const TensorId first = Sum({Separable(prev, 7, 2), Separable(cur, 5, 2)});
    const TensorId second = Sum({Max(cur, 2), Separable(prev, 7, 2)});
    return Join({first, second, Sum({Average(cur, 2), Separable(prev, 5, 2)}),
                 Sum({Max(cur, 2), Separable(first, 3)}), Sum({Average(first), second})});
  }

 private:
  std::string Next(std::string_view kind) {
    return absl::StrCat(name_, ".", std::string(kind), count_++);
  }
  TensorId Squeeze(TensorId x) {
    return b_.Apply(Next("squeeze"), Conv2d{.channels = channels_, .window = Same(1), .relu = true},
                    {x});
  }
  // The cell before may have had twice the height and width.
  TensorId Fit(TensorId cur, TensorId x) {
    if (b_.shape(cur)[1] == b_.shape(x)[1]) return Squeeze(x);
    return b_.Apply(Next("fit"), Conv2d{.channels = channels_, .window = Same(3, 2), .relu = true},
                    {x});
  }
  TensorId Separable(TensorId x, int64_t size, int64_t stride = 1) {
    const int64_t in = b_.shape(x)[0];
    x = b_.Apply(Next("depthwise"),
                 Conv2d{.channels = in, .window = Same(size, stride), .groups = in, .bias = false},
                 {x});
    return b_.Apply(Next("pointwise"), Conv2d{.channels = channels_, .window = Same(1)}, {x});
  }
  TensorId Average(TensorId x, int64_t stride = 1) {
    return b_.Apply(
        Next("average"),
        Pool{.kind = PoolKind::kAverage, .window = Same(3, stride), .count_padding = false}, {x});
  }
  TensorId Max(TensorId x, int64_t stride) {
    return b_.Apply(Next("max"), Pool{.kind = PoolKind::kMax, .window = Same(3, stride)}, {x});
  }
  TensorId Sum(std::vector<TensorId> terms) {
    return b_.Apply(Next("add"), Add{}, std::move(terms));
  }
  TensorId Join(std::vector<TensorId> parts) {
    return b_.Apply(name_, compute::Concat{.axis = 1}, std::move(parts));
  }

  GraphBuilder& b_;
  const std::string name_;
  const int64_t channels_;
  int count_ = 0;
};

}  // namespace

absl::StatusOr<Graph> BuildNasnetA(const ModelSpec& spec) {
  const bool tiny = spec.tiny;
  const int64_t cells = spec.count("layers", tiny ? 1 : 5);
  int64_t channels = spec.count("hidden", tiny ? 8 : 128);
  GraphBuilder b("nasnet_a");
  TensorId x = b.Input(
      "input", DataType::kFloat32,
      spec.image(tiny ? std::vector<int64_t>{1, 28, 28} : std::vector<int64_t>{3, 224, 224}));
  x = b.Apply(
      "stem",
      Conv2d{.channels = tiny ? 8 : 64, .window = tiny ? Same(3) : Same(7, 2), .relu = true}, {x});
  if (!tiny) x = b.Apply("pool", Pool{.kind = PoolKind::kMax, .window = Same(3, 2)}, {x});
  for (int stage = 0; stage < 3; ++stage) {
    TensorId prev = x;
    TensorId cur = x;
    for (int64_t i = 0; i < cells; ++i) {
      const std::string name = absl::StrCat("stage", stage, ".normal", i);
      const TensorId next = Cell(&b, name, channels).Normal(prev, cur);
      prev = cur;
      cur = next;
    }
    channels *= 2;
    x = Cell(&b, absl::StrCat("stage", stage, ".reduction"), channels).Reduction(prev, cur);
  }
  x = b.Apply("avgpool", compute::Reduce{.axes = {2, 3}}, {x});
  b.Loss("loss", b.Apply("fc", compute::Linear{.outputs = spec.classes(tiny ? 10 : 1000)}, {x}));
  return b.Build();
}

}  // namespace soapstone::models
