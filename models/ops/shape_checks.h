// What the operators' rules ask of shapes alike, and the words they say it with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "compute/op.h"

namespace soapstone::models {

using Shape = std::vector<int64_t>;

// Of one tensor: 4 TiB. Sums and products of two such numbers' roots stay far from 2^63.
inline constexpr int64_t kElementsMax = int64_t{1} << 40;

std::string ShapeText(const Shape& shape);  // "[8, 10]"

template <class... Args>
absl::Status ShapeError(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

// Error unless all dimensions are positive and the elements are at most kElementsMax.
absl::Status CheckElements(const std::string& what, const Shape& shape);
// Error unless 1 <= value <= kElementsMax: "outputs must be at least 1, not 0".
absl::Status CheckCount(const std::string& what, int64_t value);
// Error unless there are `count` inputs, all of them f32.
absl::Status CheckInputs(absl::Span<const compute::TensorSpec> inputs, size_t count);
absl::Status CheckFloat(const compute::TensorSpec& input);
// Error unless they are f32 queries [N, T, D], keys [N, S, D], values [N, S, ..].
absl::Status CheckSequences(absl::Span<const compute::TensorSpec> inputs);
// Error unless the inputs are f32 and of one shape.
absl::Status CheckAlike(absl::Span<const compute::TensorSpec> inputs);
// Error unless the shape has the axis, and it is not the batch's.
absl::Status CheckAxis(int64_t axis, const Shape& shape);
// Error unless the input is [N, C, H, W].
absl::Status CheckImage(const compute::TensorSpec& input);
// Error unless the window is possible and fits into an image [N, C, H, W].
absl::Status CheckWindow(const compute::Window& window, const Shape& image);
// Error where a window may lie in the padding alone.
absl::Status CheckPaddingWithin(const compute::Window& window);

compute::TensorSpec Floats(Shape shape);

}  // namespace soapstone::models
