// resnet50, resnet101 (He et al. 2016, bottlenecks; the stride is in the 3×3 convolution, as
// torchvision has it, whose names these are).
#include <array>

#include "absl/strings/str_cat.h"
#include "models/zoo/zoo_models.h"

namespace soapstone::models {
namespace {

using compute::Add;
using compute::BatchNorm;
using compute::Conv2d;
using compute::Linear;
using compute::Pool;
using compute::PoolKind;
using compute::Window;

class Resnet {
 public:
  Resnet(std::string_view name, const ModelSpec& spec, std::array<int64_t, 4> blocks)
      : b_(name), spec_(spec), blocks_(blocks) {}

  absl::StatusOr<Graph> Build() {
    const bool tiny = spec_.tiny;
    const int64_t width = spec_.count("hidden", tiny ? 8 : 64);
    if (tiny) blocks_ = {1, 1, 1, 1};
    TensorId x = b_.Input(
        "input", DataType::kFloat32,
        spec_.image(tiny ? std::vector<int64_t>{1, 28, 28} : std::vector<int64_t>{3, 224, 224}));
    x = Conv("conv1", "bn1", x, width, tiny ? Window::Square(3, 1, 1) : Window::Square(7, 2, 3));
    if (!tiny) {
      x = b_.Apply("maxpool", Pool{.kind = PoolKind::kMax, .window = Window::Square(3, 2, 1)}, {x});
    }
    for (int64_t stage = 0; stage < 4; ++stage) {
      for (int64_t i = 0; i < blocks_[stage]; ++i) {
        const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        x = Bottleneck(absl::StrCat("layer", stage + 1, ".", i), x, width << stage, stride);
      }
    }
    x = b_.Apply("avgpool", compute::Reduce{.axes = {2, 3}}, {x});
    b_.Loss("loss", b_.Apply("fc", Linear{.outputs = spec_.classes(tiny ? 10 : 1000)}, {x}));
    return b_.Build();
  }

 private:
  TensorId Conv(const std::string& conv, const std::string& norm, TensorId x, int64_t channels,
                const Window& window, bool relu = true) {
    x = b_.Apply(conv, Conv2d{.channels = channels, .window = window, .bias = false}, {x});
    return b_.Apply(norm, BatchNorm{.relu = relu}, {x});
  }

  // 1×1 to `width`, 3×3, 1×1 to 4·width; the input is added, through a 1×1 where shapes differ.
  TensorId Bottleneck(const std::string& name, TensorId in, int64_t width, int64_t stride) {
    const auto at = [&](std::string_view part) {
      return absl::StrCat(name, ".", std::string(part));
    };
    TensorId x = Conv(at("conv1"), at("bn1"), in, width, Window::Square(1));
    x = Conv(at("conv2"), at("bn2"), x, width, Window::Square(3, stride, 1));
    x = Conv(at("conv3"), at("bn3"), x, 4 * width, Window::Square(1), false);
    if (stride != 1 || b_.shape(in)[0] != 4 * width) {
      in = Conv(at("downsample.0"), at("downsample.1"), in, 4 * width, Window::Square(1, stride),
                false);
    }
    return b_.Apply(at("add"), Add{.relu = true}, {x, in});
  }

  GraphBuilder b_;
  const ModelSpec& spec_;
  std::array<int64_t, 4> blocks_;
};

}  // namespace

absl::StatusOr<Graph> BuildResnet50(const ModelSpec& spec) {
  return Resnet("resnet50", spec, {3, 4, 6, 3}).Build();
}

absl::StatusOr<Graph> BuildResnet101(const ModelSpec& spec) {
  return Resnet("resnet101", spec, {3, 4, 23, 3}).Build();
}

}  // namespace soapstone::models
