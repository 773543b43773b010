// What a trainable tensor is, apart from its values: models declare these, the layout slices
// them, shards create the initial values from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace soapstone {

// Initial values, each a function of (seed, parameter, element) alone, so that any shard makes
// the same bits for its slice.
enum class InitKind : uint8_t {
  kZero,
  kOne,
  kUniform,  // uniform in [-scale, scale)
  kNormal,   // normal with standard deviation `scale`
};

// The box of a tensor that a piece of it is: [begin, begin + the piece's shape).
struct PieceOf {
  uint32_t param = 0;  // of the model
  std::string name;    // of that
  std::vector<int64_t> shape;
  std::vector<int64_t> begin;
  friend bool operator==(const PieceOf&, const PieceOf&) = default;
};

// A parameter of a model, or a piece of one, which is kept as a tensor of its own.
struct ParamSpec {
  std::string name;            // as written to the model file, e.g. "conv1.weight"
  std::vector<int64_t> shape;  // row-major
  InitKind init = InitKind::kZero;
  double scale = 0;
  // > 0: not trained but averaged, as a running mean is: its "gradient" g, a mean over samples like
  // any other, is applied as x − average_rate·g whatever the optimizer and its learning rate.
  double average_rate = 0;
  std::optional<PieceOf> piece;

  uint64_t elements() const {
    uint64_t n = 1;
    for (int64_t d : shape) n *= static_cast<uint64_t>(d);
    return n;
  }
  friend bool operator==(const ParamSpec&, const ParamSpec&) = default;
};

// A table of rows by 64-bit key. A row is made when its key is first pushed; before, it reads as
// its initial value, a function of (seed, table, key, element) alone.
struct TableSpec {
  std::string name;  // as written to the model file, e.g. "user"
  uint32_t dim = 1;  // floats of a row
  InitKind init = InitKind::kZero;
  double scale = 0;
  uint64_t rows_max = 0;  // of a shard; beyond it rows that were not used for longest go. 0: no end
  friend bool operator==(const TableSpec&, const TableSpec&) = default;
};

}  // namespace soapstone
