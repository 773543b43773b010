// Reads the binary form of CIFAR-10 and CIFAR-100: records of labels and 3×32×32 bytes. Gzip or
// not. Called by image_data.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace soapstone::models {

// A record of CIFAR-10 is a label and the image; of CIFAR-100 a coarse label, a fine one (the one
// kept here) and the image. An image is its red plane, then green, then blue, each row by row.
enum class CifarKind { k10, k100 };

inline constexpr int64_t kCifarChannels = 3;
inline constexpr int64_t kCifarSide = 32;

struct CifarImages {
  std::vector<uint8_t> values;  // [size, 3, 32, 32]
  std::vector<int32_t> labels;  // [size], in [0, 10) or [0, 100)
};

inline int CifarClasses(CifarKind kind) { return kind == CifarKind::k10 ? 10 : 100; }

// Appends the images of one file. Errors, with the file's name: those of ReadMaybeGzip;
// InvalidArgument for an empty file, a record that is cut off, a label that is no class.
absl::Status ReadCifar(const std::string& path, CifarKind kind, CifarImages* images);

}  // namespace soapstone::models
