// ImageShape: what one sample of a data set looks like, and what a model of the zoo is sized by.
#pragma once

#include <cstdint>

namespace soapstone::models {

// A flat vector of D features is 1×1×D.
struct ImageShape {
  int64_t channels = 1;
  int64_t height = 1;
  int64_t width = 1;

  int64_t elements() const { return channels * height * width; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

}  // namespace soapstone::models
