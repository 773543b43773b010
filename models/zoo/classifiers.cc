// softmax, mlp, lenet5, alexnet: chains of layers.
#include <array>

#include "absl/strings/str_cat.h"
#include "models/zoo/zoo_models.h"

namespace soapstone::models {
namespace {

using compute::Conv2d;
using compute::Dropout;
using compute::Linear;
using compute::Pool;
using compute::PoolKind;
using compute::Window;

const std::vector<int64_t> kMnist = {1, 28, 28};

// dropout: the rate; 0 leaves the operator out.
TensorId MaybeDropout(GraphBuilder* b, std::string_view name, double rate, TensorId x) {
  return rate > 0 ? b->Apply(name, Dropout{.rate = rate}, {x}) : x;
}

}  // namespace

absl::StatusOr<Graph> BuildSoftmax(const ModelSpec& spec) {
  GraphBuilder b("softmax");
  TensorId x = b.Input("input", DataType::kFloat32, spec.image(kMnist));
  x = b.Flatten("flatten", x);
  b.Loss("loss", b.Apply("fc1", Linear{.outputs = spec.classes(10)}, {x}));
  return b.Build();
}

absl::StatusOr<Graph> BuildMlp(const ModelSpec& spec) {
  const int64_t hidden = spec.count("hidden", spec.tiny ? 16 : 128);
  GraphBuilder b("mlp");
  TensorId x = b.Input("input", DataType::kFloat32, spec.image(kMnist));
  x = b.Flatten("flatten", x);
  x = b.Apply("fc1", Linear{.outputs = hidden, .relu = true}, {x});
  x = b.Apply("fc2", Linear{.outputs = hidden / 2, .relu = true}, {x});
  b.Loss("loss", b.Apply("fc3", Linear{.outputs = spec.classes(10)}, {x}));
  return b.Build();
}

// LeCun et al. 1998, as built today: ReLU, max pooling.
absl::StatusOr<Graph> BuildLenet5(const ModelSpec& spec) {
  const std::vector<int64_t> image = spec.image(spec.tiny ? std::vector<int64_t>{1, 8, 8} : kMnist);
  const bool small = image.size() == 3 && image[1] == 8 && image[2] == 8;
  if (!small && (image.size() != 3 || image[1] != 28 || image[2] != 28)) {
    return absl::InvalidArgumentError(absl::StrCat("lenet5 takes images of 28×28 or 8×8, not ",
                                                   image.size() == 3 ? image[1] : 1, "×",
                                                   image.back(), "; mlp and softmax take any"));
  }
  const Window first = small ? Window::Square(3, 1, 1) : Window::Square(5, 1, 2);
  const Window second = small ? Window::Square(3, 1, 1) : Window::Square(5);
  const Pool halve = {.kind = PoolKind::kMax, .window = Window::Square(2, 2)};
  GraphBuilder b("lenet5");
  TensorId x = b.Input("input", DataType::kFloat32, image);
  x = b.Apply("conv1", Conv2d{.channels = small ? 16 : 6, .window = first, .relu = true}, {x});
  x = b.Apply("pool1", halve, {x});
  x = b.Apply("conv2", Conv2d{.channels = small ? 32 : 16, .window = second, .relu = true}, {x});
  x = b.Flatten("flatten", b.Apply("pool2", halve, {x}));
  x = b.Apply("fc1", Linear{.outputs = 120, .relu = true}, {x});
  x = b.Apply("fc2", Linear{.outputs = 84, .relu = true}, {x});
  b.Loss("loss", b.Apply("fc3", Linear{.outputs = spec.classes(10)}, {x}));
  return b.Build();
}

// Krizhevsky 2014, "One weird trick": one tower. Names as torchvision's.
absl::StatusOr<Graph> BuildAlexnet(const ModelSpec& spec) {
  const bool tiny = spec.tiny;
  const std::array<int64_t, 5> channels = tiny ? std::array<int64_t, 5>{16, 24, 32, 32, 24}
                                               : std::array<int64_t, 5>{64, 192, 384, 256, 256};
  const int64_t hidden = spec.count("hidden", tiny ? 64 : 4096);
  const double rate = spec.option("dropout", tiny ? 0 : 0.5);
  const Window first = tiny ? Window::Square(3, 1, 1) : Window::Square(11, 4, 2);
  const Window second = tiny ? Window::Square(3, 1, 1) : Window::Square(5, 1, 2);
  const Window third = Window::Square(3, 1, 1);
  const Pool pool = {.kind = PoolKind::kMax, .window = Window::Square(tiny ? 2 : 3, 2)};
  GraphBuilder b("alexnet");
  TensorId x = b.Input("input", DataType::kFloat32,
                       spec.image(tiny ? kMnist : std::vector<int64_t>{3, 224, 224}));
  const auto conv = [&](std::string_view name, int64_t c, const Window& window) {
    x = b.Apply(name, Conv2d{.channels = c, .window = window, .relu = true}, {x});
  };
  conv("features.0", channels[0], first);
  x = b.Apply("features.2", pool, {x});
  conv("features.3", channels[1], second);
  x = b.Apply("features.5", pool, {x});
  conv("features.6", channels[2], third);
  conv("features.8", channels[3], third);
  conv("features.10", channels[4], third);
  x = b.Flatten("flatten", b.Apply("features.12", pool, {x}));
  x = MaybeDropout(&b, "classifier.0", rate, x);
  x = b.Apply("classifier.1", Linear{.outputs = hidden, .relu = true}, {x});
  x = MaybeDropout(&b, "classifier.3", rate, x);
  x = b.Apply("classifier.4", Linear{.outputs = hidden, .relu = true}, {x});
  b.Loss("loss", b.Apply("classifier.6", Linear{.outputs = spec.classes(tiny ? 10 : 1000)}, {x}));
  return b.Build();
}

}  // namespace soapstone::models
