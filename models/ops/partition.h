// How an operator may be split: the planner's view of it (FlexFlow's table 1, with reduction splits
// and uneven ones). A value: for any block of an operator's iteration space it tells the blocks of
// the tensors that are read and written, and whether what is written is a partial sum.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace soapstone::models {

// [begin, end)
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};
using Block = std::vector<Range>;  // one range a dimension: of a tensor, or of an iteration space
int64_t ElementsOf(const Block& block);

// A dimension of what an operator iterates over. Splitting by
//  sample, attribute: parts need parts of the inputs (with halo), and all of the parameters
//  parameter: parts need parts of the parameters
//  reduction: parts write partial sums of whole outputs, which are to be added
enum class DimKind : uint8_t { kSample, kAttribute, kParameter, kReduction };
struct IterationDim {
  std::string name;  // "n", "h", "o", ...
  DimKind kind = DimKind::kSample;
  int64_t extent = 1;
  int64_t unit = 1;  // boundaries of parts are multiples of it (a head's features)
  bool splittable = true;
  // Parts compute what the whole does only if they exchange sums over this dimension within the
  // operator (batch norm: two numbers a channel); else each norms by its own.
  bool exchanges_statistics = false;
  friend bool operator==(const IterationDim&, const IterationDim&) = default;
};

// The range of one dimension of a tensor that belongs to [b, e) of iteration dimension `dim`:
//   [⌊b/per⌋·scale + offset, (⌈e/per⌉ − 1)·scale + offset + window) ∩ [0, side),
// within each of `repeats` equal sections of that dimension. dim < 0: all of it.
struct DimUse {
  int dim = -1;
  int64_t scale = 1, offset = 0, window = 1, per = 1;
  int64_t repeats = 1;
  friend bool operator==(const DimUse&, const DimUse&) = default;
};
using TensorUse = std::vector<DimUse>;  // by dimension of the tensor, the batch first

struct PartitionRule {
  std::vector<IterationDim> dims;
  std::vector<TensorUse> inputs, params, outputs;
  // Times in one run, forward, at which the parts of a split parameter dimension exchange the whole
  // output of a time step (lstm: T − 1), besides what blocks say.
  int64_t exchanges = 0;
  friend bool operator==(const PartitionRule&, const PartitionRule&) = default;
};

// What [b, e) reaches before it is cut to [0, side); with the halo that lies in the padding.
Range ReachOf(const DimUse& use, const Range& part);

// The block of a tensor of this shape that `part` of the iteration space uses; where repeats > 1,
// within one section.
Block BlockOf(const TensorUse& use, const std::vector<int64_t>& shape, const Block& part);

// Whether parts that differ in dimension `dim` only write to the same places of the output, which
// are then to be added.
bool LeavesPartialSums(const PartitionRule& rule, size_t output, size_t dim);

}  // namespace soapstone::models
