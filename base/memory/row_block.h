// RowBlock: some rows of a table with all that belongs to each, as they go between a shard's memory
// (server/store/table_capture.h, server/store/sparse_table.h) and a checkpoint's parts
// (checkpoint/table_part.h). A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace soapstone {

// What an optimizer's rows have, and how many floats each of it is.
struct RowForm {
  uint32_t dim = 0;
  bool first = false;   // moments, as compute::SliceState's
  bool second = false;  // likewise
  bool steps = false;   // rows count their gradients
  bool used = false;    // rows remember whether they were used
  friend bool operator==(const RowForm&, const RowForm&) = default;

  // Of a row's values and moments.
  size_t floats() const { return size_t{dim} * (size_t{1} + (first ? 1 : 0) + (second ? 1 : 0)); }
  // Of a row in a block.
  size_t bytes() const {
    return sizeof(uint64_t) * (size_t{1} + (steps ? 1 : 0) + (used ? 1 : 0)) +
           sizeof(float) * floats();
  }
};

// What a row's form lacks is empty.
struct RowBlock {
  std::vector<uint64_t> keys;   // [n], each once
  std::vector<float> values;    // [n, dim]
  std::vector<float> first;     // [n, dim]
  std::vector<float> second;    // [n, dim]
  std::vector<uint64_t> steps;  // [n]
  std::vector<uint64_t> used;   // [n], 0 or 1
  friend bool operator==(const RowBlock&, const RowBlock&) = default;

  void Resize(size_t rows, const RowForm& form) {
    keys.resize(rows);
    values.resize(rows * form.dim);
    first.resize(form.first ? rows * form.dim : 0);
    second.resize(form.second ? rows * form.dim : 0);
    steps.resize(form.steps ? rows : 0);
    used.resize(form.used ? rows : 0);
  }
  bool Fits(const RowForm& form) const {
    const size_t rows = keys.size();
    return values.size() == rows * form.dim && first.size() == (form.first ? rows * form.dim : 0) &&
           second.size() == (form.second ? rows * form.dim : 0) &&
           steps.size() == (form.steps ? rows : 0) && used.size() == (form.used ? rows : 0);
  }
};

}  // namespace soapstone
