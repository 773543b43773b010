// Section: what one worker of several runs of a training step of a model that is split between
// them: parts of operators in one order, where the blocks come from that they read, and where those
// go that they write. A value, made by the lowering of a strategy (strategy/lowering.h) and run by
// models/runtime/section_runner.h. Knows no kernels, no memory and nobody else's section.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compute/op.h"
#include "models/ops/part.h"

namespace soapstone::models {

// A box of elements, from its place in one plain tensor to its place in another.
struct Move {
  std::vector<int64_t> size;
  std::vector<int64_t> from, to;  // its first element
  int64_t elements() const;
  friend bool operator==(const Move&, const Move&) = default;
};

// Something that a part of this section leaves, or that another section sends.
struct BlockSource {
  enum class Kind : uint8_t { kPart, kMessage };
  Kind kind = Kind::kPart;
  uint32_t index = 0;  // of the part, or of the message: into `parts`, `incoming`
  uint32_t slot = 0;   // of the part: which output, or whose input's gradient
  friend bool operator==(const BlockSource&, const BlockSource&) = default;
};

// Of a source to a tensor. A message is the box alone, row-major.
struct Box {
  BlockSource source;
  Move move;
  float scale = 1;
  bool adds = false;  // to what lies there; else it is written
};

// How a part's input, or the gradient of its output, comes about.
struct Assembly {
  // kZeros   nobody gives it
  // kField   the box `move` of a field of the batch
  // kPass    what one source leaves, whole, in the format that its kernel leaves
  // kBoxes   boxes of sources, in their order, in a plain tensor
  enum class Kind : uint8_t { kZeros, kField, kPass, kBoxes };
  Kind kind = Kind::kZeros;
  uint32_t field = 0;
  Move move;
  BlockSource source;      // kPass
  std::vector<Box> boxes;  // kBoxes, kPass of a message that lacks rows which nobody reads
  bool covered = false;    // boxes write every element; else the others are `fill`
};

struct PartInput {
  compute::TensorSpec spec;  // with what is put around
  float fill = 0;
  Assembly from;
  // kPass of a message: which output of which part its format is.
  uint32_t made_by = 0, made_slot = 0;
  std::optional<Range> rows;  // ids are of the whole table: ShiftIds
  bool relu = false;          // what is assembled is max(0, ·) of the sums, its gradient masked
  Move inside;                // relu: the box without what is put around (from and to are equal)
  bool gradient = false;      // its gradient is wanted
};

struct PartOutput {
  compute::TensorSpec spec;
  // Of its gradient, one a reader; summed in this order. None: zeros, or the loss's own.
  std::vector<Assembly> terms;
};

// Elements of a parameter that a part reads, in memory of their own.
struct ParamBlock {
  uint32_t param = 0;  // of the model
  PartTensor tensor;   // of the whole parameter
  friend bool operator==(const ParamBlock& a, const ParamBlock& b) {
    return a.param == b.param && a.tensor.block == b.tensor.block &&
           a.tensor.before == b.tensor.before && a.tensor.after == b.tensor.after;
  }
};

struct SectionPart {
  std::string name;  // "conv1", of part 2 of micro-batch 3 "conv1#3[2]"
  compute::Operator op;
  uint32_t model_op = 0;     // dropout's key
  int64_t first_sample = 0;  // within the batch
  uint32_t micro_batch = 0;
  std::vector<PartInput> inputs;
  std::vector<PartOutput> outputs;
  std::vector<std::vector<int64_t>> param_shapes;
  std::vector<uint32_t> params;  // into param_blocks; of others' parts none
  bool backward = true;          // it has a backward half
  bool is_loss() const;
};

struct OutgoingBlock {
  uint32_t number = 0;  // of the team's messages
  uint32_t seat = 0;    // whom it is for
  std::vector<int64_t> size;
  bool backward = false;   // of gradients of inputs; else of outputs
  std::vector<Box> boxes;  // of parts: one forward; backward those that read the region
};

struct IncomingBlock {
  uint32_t number = 0;
  uint32_t seat = 0;  // who sends it
  std::vector<int64_t> size;
  bool backward = false;
};

// kTake stands before the first part that reads a message, kGive behind the last that makes it.
struct SectionStep {
  enum class Kind : uint8_t { kTake, kForward, kBackward, kGive };
  Kind kind = Kind::kForward;
  uint32_t index = 0;  // into incoming, parts, parts, outgoing
  friend bool operator==(const SectionStep&, const SectionStep&) = default;
};

// Invariants:
//  1. steps name each of the first `own_parts` parts once forward and, if it has a backward half,
//     once backward, each message once; a step's sources stand before it.
//  2. Parts behind the own ones are others': they are there for their formats, and read by kPass or
//     are plain.
struct Section {
  std::vector<SectionPart> parts;
  uint32_t own_parts = 0;
  std::vector<ParamBlock> param_blocks;
  std::vector<OutgoingBlock> outgoing;
  std::vector<IncomingBlock> incoming;
  std::vector<SectionStep> steps;
};

// The section without its backward halves, and without the messages of these: for evaluation.
Section ForwardHalf(Section section);

}  // namespace soapstone::models
