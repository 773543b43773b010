// RowOptimizer: one optimizer over many short slices, each with its state beside it: the rows of a
// sparse table (server/store/sparse_table.h), which calls it. Knows nothing of keys.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "compute/optimizer.h"

namespace soapstone::compute {

// A row in memory is [values | first | second], each [dim] f32, of the last two those that the
// optimizer has. New rows: initial values, then zeros. One thread at a time.
class RowOptimizer {
 public:
  // REQUIRES: dim > 0.
  RowOptimizer(const OptimizerSpec& spec, uint32_t dim);

  uint32_t dim() const { return dim_; }
  uint32_t row_floats() const { return row_floats_; }
  // True where the update depends on how many gradients a row has had.
  bool counts_steps() const { return counts_steps_; }

  // One gradient for each of `rows`; gradients: [rows, dim] f32. Leaves what ApplyGradient on each
  // row as a slice of its own would leave, to the bit. steps: [rows], gradients the row has had,
  // this one included; not looked at unless counts_steps. False: as ApplyGradient.
  bool Apply(const Update& update, absl::Span<float* const> rows, absl::Span<const uint64_t> steps,
             const float* gradients);

 private:
  struct Parts {
    double first = 0;   // 1 − β1^t
    double second = 0;  // 1 − β2^t
  };
  Parts PartsOf(uint64_t step);

  OptimizerSpec spec_;
  uint32_t dim_;
  uint32_t row_floats_;
  uint32_t first_at_ = 0, second_at_ = 0;  // floats from a row's begin
  bool counts_steps_;
  std::vector<Parts> parts_;  // by step, as far as there was need
};

}  // namespace soapstone::compute
