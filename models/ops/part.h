// A part of an operator as an operator of its own: what an executor of split models runs on one
// device. Says which blocks of the whole tensors go in, as what, and what becomes of the results.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compute/op.h"
#include "models/ops/op_rules.h"

namespace soapstone::models {

// A block of one of the whole operator's tensors, with elements of `fill` put around it where the
// part's window reaches over an edge on one side more than on the other (operators pad both sides
// alike). Gradients at such elements are dropped.
struct PartTensor {
  size_t source = 0;  // which of the whole operator's inputs, parameters or outputs
  Block block;
  std::vector<int64_t> before, after;  // elements put around, by dimension
  float fill = 0;

  std::vector<int64_t> shape() const;  // with what is put around
};

struct PartOperator {
  compute::Operator op;
  // In the order of the part's operator. Of concat and split only those that the part touches; of
  // the parts that add up only the first has the bias.
  std::vector<PartTensor> inputs, params, outputs;

  // Embedding of some of the rows: see ShiftIds.
  std::optional<Range> rows;
  // The whole output is the sum, over the parts that differ in reduction dimensions, of
  // output_scale times the part's output; then `after_sum` is to be applied. Gradients likewise:
  // those of the sum times output_scale are those of the part's output.
  bool adds_up = false;
  double output_scale = 1;
  std::optional<compute::Operator> after_sum;
  // Equal to the whole only if sums are exchanged within the operator (batch norm).
  bool exchanges_statistics = false;
};

// The part of `op` with these ranges of its rule's dimensions (none empty; bounds multiples of the
// dimension's unit; whole where a dimension is not splittable). Whole gradients of inputs and
// parameters are the sums of the parts'. Error: no operator does this part's work alone (units of
// an lstm, which exchange their outputs at every step). Dropout's kernel must be told the first
// sample: part[0].begin more than the whole's.
absl::StatusOr<PartOperator> PartOf(const compute::Operator& op, const OpShapes& shapes,
                                    const Block& part);

// ids of the whole table → row of the part's: id − rows.begin, or for an id of another part
// rows.size(), the row of zeros behind the part's own.
void ShiftIds(const Range& rows, absl::Span<int32_t> ids);

// whole: values of a tensor of `shape`; part: of tensor.shape(). Elements are of 4 bytes, of any
// type: only moved.
void ExtractPart(const PartTensor& tensor, const std::vector<int64_t>& shape,
                 absl::Span<const float> whole, absl::Span<float> part);
// whole's block += the part's values, without what was put around.
void AddPart(const PartTensor& tensor, const std::vector<int64_t>& shape,
             absl::Span<const float> part, absl::Span<float> whole);

}  // namespace soapstone::models
