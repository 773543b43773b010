// The nodes that one run of a section consists of, in order, and every value in its memory with its
// lifetime: assemblies of inputs and gradients, conversions between a kernel's format and a plain
// one, kernels, sums. Made by a SectionRunner from a section and its kernels' plans; a value.
#pragma once

#include <cstdint>
#include <vector>

#include "compute/kernel.h"
#include "models/graph/section.h"
#include "models/graph/step_graph.h"

namespace soapstone::models {

struct SectionNode {
  // kClear     outputs[0] becomes zeros
  // kField     outputs[0]: a box of a field of the batch, plain
  // kAssemble  outputs[0]: the boxes of `assembly`, plain
  // kImport    outputs[0]: inputs[0], or without it the message of `assembly`, in a kernel's format
  // kExport    outputs[0]: inputs[0], plain
  // kForward, kBackward: the part's kernel, with Node's arguments
  // kSum       input_grads[0]: the sum of output_grads, in one format
  // kMask      outputs[0]: inputs[0] where inputs[1] > 0, else 0; plain
  // kGive      the boxes of outgoing block `part` leave; without sources inputs[0] does, whole
  enum class Kind : uint8_t {
    kClear,
    kField,
    kAssemble,
    kImport,
    kExport,
    kForward,
    kBackward,
    kSum,
    kMask,
    kGive
  };
  Kind kind = Kind::kForward;
  uint32_t part = 0;
  // kField, kAssemble: of an input, else of an output's gradient. kImport, kExport, kSum, kGive:
  // whose output has the format.
  uint32_t slot = 0;
  uint32_t format_part = 0, format_slot = 0;
  bool of_input = false;               // kAssemble
  bool no_work = false;                // outputs are inputs under other names
  const Assembly* assembly = nullptr;  // kField, kAssemble, kImport: in the section
  ValueIds sources;                    // kAssemble, kGive: by box; kNoValue: a message
  ValueIds inputs, outputs, output_grads, input_grads;  // kNoValue: not there
  ValueId saved = kNoValue, scratch = kNoValue;
};

struct SectionPlan {
  std::vector<SectionNode> nodes;
  std::vector<Value> values;
  std::vector<uint32_t> step_begin;  // by step its first node, and the end
  // By step: the incoming blocks that it is the last to read.
  std::vector<std::vector<uint32_t>> last_read;
};

// plans: by part, the others' too. Keeps pointers into the section.
SectionPlan PlanSection(const Section& section,
                        const std::vector<const compute::KernelPlan*>& plans);

}  // namespace soapstone::models
