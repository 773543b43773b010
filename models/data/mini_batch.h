// MiniBatch: one mini-batch as data sets (dataset.h) hand it out and graphs take it: a buffer for
// each named input, in order, labels last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace soapstone::models {

// What a sample has under one name.
struct FieldSpec {
  std::string name;
  bool is_float = true;        // float32, else int32
  std::vector<int64_t> shape;  // of one sample; {}: a single value
};

inline bool operator==(const FieldSpec& a, const FieldSpec& b) {
  return a.name == b.name && a.is_float == b.is_float && a.shape == b.shape;
}

inline constexpr size_t kWordBytes = 4;  // of a float32 and of an int32
static_assert(sizeof(float) == kWordBytes && sizeof(int32_t) == kWordBytes);

// Values of one sample.
inline int64_t ElementsOf(const FieldSpec& spec) {
  int64_t elements = 1;
  for (const int64_t extent : spec.shape) elements *= extent;
  return elements;
}

// One mini-batch: by field, in the order of the dataset's fields, n samples one after another.
// A field is [samples, shape...] of 4-byte words. Its bytes are the vector's own allocation, which
// is aligned for every scalar type (16 bytes here), so they may be read as float or int32_t.
struct MiniBatch {
  int64_t samples = 0;
  std::vector<std::vector<std::byte>> fields;

  // A field's values. REQUIRES: the field is of that type.
  absl::Span<const float> Floats(size_t field) const { return As<float>(fields[field]); }
  absl::Span<const int32_t> Ints(size_t field) const { return As<int32_t>(fields[field]); }

 private:
  template <typename T>
  static absl::Span<const T> As(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

}  // namespace soapstone::models
