#include "models/ops/shape_checks.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace soapstone::models {
namespace {

std::string SidesText(int64_t height, int64_t width) { return absl::StrCat(height, "x", width); }

std::string PaddingText(const compute::Window& w) {
  return w.pad_h == w.pad_w ? absl::StrCat(w.pad_h) : SidesText(w.pad_h, w.pad_w);
}

}  // namespace

std::string ShapeText(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status CheckElements(const std::string& what, const Shape& shape) {
  int64_t elements = 1;
  for (int64_t d : shape) {
    if (d <= 0) return ShapeError(what, " ", ShapeText(shape), " has a dimension below 1");
    if (d > kElementsMax / elements) {
      return ShapeError(what, " ", ShapeText(shape), " has more than 2^40 elements");
    }
    elements *= d;
  }
  return absl::OkStatus();
}

absl::Status CheckCount(const std::string& what, int64_t value) {
  if (value < 1) return ShapeError(what, " must be at least 1, not ", value);
  if (value > kElementsMax) return ShapeError(what, " must be at most 2^40, not ", value);
  return absl::OkStatus();
}

absl::Status CheckFloat(const compute::TensorSpec& input) {
  if (input.type == compute::DataType::kFloat32) return absl::OkStatus();
  return ShapeError("it takes float32 values, not int32 ", ShapeText(input.shape));
}

absl::Status CheckInputs(absl::Span<const compute::TensorSpec> inputs, size_t count) {
  if (inputs.size() != count) {
    return ShapeError("it takes ", count, count == 1 ? " input" : " inputs", ", not ",
                      inputs.size());
  }
  for (const compute::TensorSpec& input : inputs) SOAP_RETURN_IF_ERROR(CheckFloat(input));
  return absl::OkStatus();
}

absl::Status CheckSequences(absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 3));
  const char* const names[] = {"queries [N, T, D]", "keys [N, S, D]", "values [N, S, E]"};
  for (size_t i = 0; i < 3; ++i) {
    if (inputs[i].shape.size() != 3) {
      return ShapeError("it takes ", names[i], ", not ", ShapeText(inputs[i].shape));
    }
  }
  const Shape& q = inputs[0].shape;
  const Shape& k = inputs[1].shape;
  const Shape& v = inputs[2].shape;
  if (k[0] != q[0] || k[2] != q[2]) {
    return ShapeError("keys ", ShapeText(k), " do not fit queries ", ShapeText(q),
                      ": they differ in samples or features");
  }
  if (v[0] != k[0] || v[1] != k[1]) {
    return ShapeError("values ", ShapeText(v), " do not fit keys ", ShapeText(k),
                      ": there is one value a key");
  }
  return absl::OkStatus();
}

absl::Status CheckAlike(absl::Span<const compute::TensorSpec> inputs) {
  for (const compute::TensorSpec& input : inputs) {
    SOAP_RETURN_IF_ERROR(CheckFloat(input));
    if (input.shape != inputs[0].shape) {
      return ShapeError("its inputs must have one shape, not ", ShapeText(inputs[0].shape), " and ",
                        ShapeText(input.shape));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAxis(int64_t axis, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  if (axis >= 1 && axis < rank) return absl::OkStatus();
  return ShapeError("axis ", axis, " is none of ", ShapeText(shape), "'s, or is the batch");
}

absl::Status CheckImage(const compute::TensorSpec& input) {
  if (input.shape.size() == 4) return absl::OkStatus();
  return ShapeError("it takes an image [N, C, H, W], not ", ShapeText(input.shape));
}

absl::Status CheckWindow(const compute::Window& w, const Shape& image) {
  SOAP_RETURN_IF_ERROR(CheckCount("the window's height", w.height));
  SOAP_RETURN_IF_ERROR(CheckCount("the window's width", w.width));
  SOAP_RETURN_IF_ERROR(CheckCount("the window's stride", w.stride_h));
  SOAP_RETURN_IF_ERROR(CheckCount("the window's stride", w.stride_w));
  const std::string sides = SidesText(w.height, w.width);
  if (w.pad_h < 0 || w.pad_w < 0) {
    return ShapeError("padding must be at least 0, not ", PaddingText(w));
  }
  if (w.pad_h > kElementsMax || w.pad_w > kElementsMax) {
    return ShapeError("padding must be at most 2^40, not ", PaddingText(w));
  }
  if (image[2] + 2 * w.pad_h < w.height || image[3] + 2 * w.pad_w < w.width) {
    return ShapeError("a window of ", sides, " does not fit into ", SidesText(image[2], image[3]),
                      " with padding ", PaddingText(w));
  }
  return absl::OkStatus();
}

absl::Status CheckPaddingWithin(const compute::Window& w) {
  if (w.pad_h < w.height && w.pad_w < w.width) return absl::OkStatus();
  return ShapeError("padding ", PaddingText(w), " is not smaller than the window of ",
                    SidesText(w.height, w.width));
}

compute::TensorSpec Floats(Shape shape) {
  return {.type = compute::DataType::kFloat32, .shape = std::move(shape)};
}

}  // namespace soapstone::models
