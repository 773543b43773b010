// Initial values of parameters. Each element is a function of (seed, parameter, element) alone, so
// that any slice of a parameter, and of a piece of one, made anywhere, has the bits of the whole.
// Shards call it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/ids.h"
#include "base/parameter.h"

namespace soapstone::compute {

// Writes elements [begin, begin + out.size()) of the parameter. REQUIRES: inside the parameter.
// out: [n] f32
void InitSlice(const ParamSpec& spec, uint64_t seed, ParamId param, uint64_t begin,
               absl::Span<float> out);

// Initial values that are given, as from a file: [elements] f32 by parameter of the model.
using GivenValues = std::vector<std::vector<float>>;

// The same, of what a parameter starts with: its given values, or without any (null) as above.
void InitSlice(const ParamSpec& spec, uint64_t seed, const GivenValues* given, ParamId param,
               uint64_t begin, absl::Span<float> out);

// Writes the row of `key` in a sparse table: a function of (seed, table, key, element) alone.
// Elements take 32 random bits each, so that a row costs little more than its first use.
struct RowInit {
  InitKind kind = InitKind::kZero;
  double scale = 0;
  uint64_t seed = 0;
  uint32_t table = 0;
};
// out: [n] f32
void InitRow(const RowInit& init, uint64_t key, absl::Span<float> out);

}  // namespace soapstone::compute
