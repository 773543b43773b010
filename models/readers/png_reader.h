// Decodes PNG images in memory to bytes. Called by image_folder.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/readers/image_shape.h"

namespace soapstone::models {

inline constexpr int64_t kImageSideMax = 16384;

// What the header says: 1 channel for shades of grey, 3 for colours; transparency is not counted.
// Errors, with `name` in front: InvalidArgument for what is no PNG or has a side of more than
// kImageSideMax.
absl::StatusOr<ImageShape> PngShape(const std::string& png, const std::string& name);

// The pixels as 8-bit values (sRGB), whatever the PNG's own depth, palette and interlacing; grey
// becomes colour and colour grey where `shape` says so; what is transparent lies on black.
// pixels: [H, W, C], one pixel after another. Errors, with `name` in front: InvalidArgument for
// what is no PNG, another size, DataLoss for one that is cut off or corrupt.
absl::Status DecodePng(const std::string& png, const std::string& name, const ImageShape& shape,
                       std::vector<uint8_t>* pixels);

}  // namespace soapstone::models
