#include "models/zoo.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace soapstone::models {
namespace {

absl::StatusOr<Graph> Softmax(const ImageShape& shape, int64_t classes) {
  GraphBuilder b("softmax", {shape.channels, shape.height, shape.width});
  const TensorId x = b.Flatten("flatten", b.input());
  b.SoftmaxCrossEntropy("loss", b.Linear("fc1", x, classes));
  return b.Build();
}

absl::StatusOr<Graph> Mlp(const ImageShape& shape, int64_t classes) {
  GraphBuilder b("mlp", {shape.channels, shape.height, shape.width});
  TensorId x = b.Flatten("flatten", b.input());
  x = b.Relu("relu1", b.Linear("fc1", x, 128));
  x = b.Relu("relu2", b.Linear("fc2", x, 64));
  b.SoftmaxCrossEntropy("loss", b.Linear("fc3", x, classes));
  return b.Build();
}

struct LenetSize {
  int64_t channels1, channels2;
  Window window1, window2;
};

absl::StatusOr<Graph> Lenet5(const ImageShape& shape, int64_t classes) {
  LenetSize size;
  if (shape.height == 28 && shape.width == 28) {
    size = {6, 16, {.size = 5, .padding = 2}, {.size = 5}};
  } else if (shape.height == 8 && shape.width == 8) {
    size = {16, 32, {.size = 3, .padding = 1}, {.size = 3, .padding = 1}};
  } else {
    return absl::InvalidArgumentError(absl::StrCat("lenet5 takes images of 28×28 or 8×8, not ",
                                                   shape.height, "×", shape.width,
                                                   "; mlp and softmax take any"));
  }
  const Window halve = {.size = 2, .stride = 2};
  GraphBuilder b("lenet5", {shape.channels, shape.height, shape.width});
  TensorId x = b.Relu("relu1", b.Conv2d("conv1", b.input(), size.channels1, size.window1));
  x = b.MaxPool("pool1", x, halve);
  x = b.Relu("relu2", b.Conv2d("conv2", x, size.channels2, size.window2));
  x = b.Flatten("flatten", b.MaxPool("pool2", x, halve));
  x = b.Relu("relu3", b.Linear("fc1", x, 120));
  x = b.Relu("relu4", b.Linear("fc2", x, 84));
  b.SoftmaxCrossEntropy("loss", b.Linear("fc3", x, classes));
  return b.Build();
}

}  // namespace

std::vector<std::string> ModelNames() { return {"softmax", "mlp", "lenet5"}; }

absl::StatusOr<Graph> BuildModel(std::string_view name, const ImageShape& shape, int64_t classes) {
  if (classes < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("a classifier needs at least two classes, not ", classes));
  }
  if (name == "softmax") return Softmax(shape, classes);
  if (name == "mlp") return Mlp(shape, classes);
  if (name == "lenet5") return Lenet5(shape, classes);
  return absl::InvalidArgumentError(absl::StrCat("unknown model '", std::string(name),
                                                 "'; known: ", absl::StrJoin(ModelNames(), ", ")));
}

}  // namespace soapstone::models
