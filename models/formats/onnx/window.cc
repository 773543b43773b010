#include "models/formats/onnx/window.h"

#include "base/status_macros.h"

namespace soapstone::models {
namespace {

constexpr int64_t kSideMax = int64_t{1} << 20;

absl::Status CheckSides(const char* what, const std::vector<int64_t>& values, size_t count,
                        int64_t least) {
  if (values.size() != count) {
    return Refuse(what, " has ", values.size(), " numbers, not ", count,
                  ": windows of two dimensions are supported");
  }
  for (int64_t v : values) {
    if (v < least || v > kSideMax) return Refuse(what, " has ", v);
  }
  return absl::OkStatus();
}

// Rounded up there would be a place more if the window did not end with the image.
bool RoundsUp(int64_t side, int64_t pad, int64_t size, int64_t stride) {
  return (side + 2 * pad - size) % stride != 0;
}

}  // namespace

absl::StatusOr<compute::Window> WindowOf(const NodeContext& c, const std::vector<int64_t>& kernel,
                                         const std::vector<int64_t>& image) {
  const std::vector<int64_t> sides = c.Ints("kernel_shape", kernel);
  const std::vector<int64_t> strides = c.Ints("strides", {1, 1});
  std::vector<int64_t> pads = c.Ints("pads", {0, 0, 0, 0});
  const std::vector<int64_t> dilations = c.Ints("dilations", {1, 1});
  const std::string automatic = c.Text("auto_pad", "NOTSET");
  if (automatic == "VALID") {
    pads = {0, 0, 0, 0};
  } else if (automatic != "NOTSET" && !automatic.empty()) {
    return Refuse("auto_pad ", automatic, " is not supported; give pads");
  }
  SOAP_RETURN_IF_ERROR(CheckSides("kernel_shape", sides, 2, 1));
  SOAP_RETURN_IF_ERROR(CheckSides("strides", strides, 2, 1));
  SOAP_RETURN_IF_ERROR(CheckSides("pads", pads, 4, 0));
  SOAP_RETURN_IF_ERROR(CheckSides("dilations", dilations, 2, 1));
  if (dilations[0] != 1 || dilations[1] != 1) {
    return Refuse("dilations other than 1 are not supported");
  }
  if (pads[0] != pads[2] || pads[1] != pads[3]) {
    return Refuse("pads ", OnnxShapeText(pads), " differ between opposite sides");
  }
  if (image.size() != 3) {
    return Refuse("it takes an image [N, C, H, W], not a tensor of ", image.size() + 1,
                  " dimensions");
  }
  const bool up = RoundsUp(image[1], pads[0], sides[0], strides[0]) ||
                  RoundsUp(image[2], pads[1], sides[1], strides[1]);
  if (c.Int("ceil_mode", 0) != 0 && up) {
    return Refuse("ceil_mode with an image that the windows do not divide is not supported");
  }
  return compute::Window{.height = sides[0],
                         .width = sides[1],
                         .stride_h = strides[0],
                         .stride_w = strides[1],
                         .pad_h = pads[0],
                         .pad_w = pads[1]};
}

}  // namespace soapstone::models
