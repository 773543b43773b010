// Columns: one field of all samples of a data set, however it is kept: numbers, bytes that are
// scaled when they are read, compressed images that are decoded then, windows of a text.
// Made by the readers, read by dataset.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "models/data/mini_batch.h"

namespace soapstone::models {

// Invariant: a sample reads the same bits each time, on any thread.
// Threading: immutable; all threads may read at once.
// Both but for a column made of rows of tables, which change with each load (sparse_model.h).
class Column {
 public:
  virtual ~Column() = default;

  const FieldSpec& spec() const { return spec_; }
  size_t elements() const { return elements_; }  // of a sample
  // Integers are in [0, limit()); 0 for floats.
  int64_t limit() const { return limit_; }

  virtual uint64_t size() const = 0;  // samples
  // Writes sample `index` as elements() words. REQUIRES: index < size(); `words` is aligned to 4.
  virtual void Read(uint64_t index, std::byte* words) const = 0;
  // True where reading takes long enough to be worth a thread.
  virtual bool decodes() const { return false; }
  // Adds what sample `index` is made of. By default its words.
  virtual void Hash(uint64_t index, Sha256* sha) const;

 protected:
  Column(FieldSpec spec, int64_t limit)
      : spec_(std::move(spec)), elements_(static_cast<size_t>(ElementsOf(spec_))), limit_(limit) {}

 private:
  const FieldSpec spec_;
  const size_t elements_;
  const int64_t limit_;
};

using ColumnPtr = std::shared_ptr<const Column>;

// Numbers as they are. values: [size, shape...]
ColumnPtr FloatColumn(FieldSpec spec, std::vector<float> values);
ColumnPtr IntColumn(FieldSpec spec, int64_t limit, std::vector<int32_t> values);

// Bytes that read as float: byte / divisor. values: [size, shape...]
ColumnPtr ByteColumn(FieldSpec spec, float divisor, std::vector<uint8_t> values);

// Sample i is tokens [i · length + offset, ... + length) of a text; with offset 1 the labels of
// those with offset 0. It has ⌊(tokens − 1) / length⌋ samples.
ColumnPtr WindowColumn(std::string name, int64_t limit, int64_t length, int64_t offset,
                       std::shared_ptr<const std::vector<int32_t>> tokens);

// The samples of these indexes of another column. REQUIRES: each is within it.
ColumnPtr SubsetColumn(ColumnPtr all, std::shared_ptr<const std::vector<uint64_t>> indexes);

}  // namespace soapstone::models
