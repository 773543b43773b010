#include "models/graph/section_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "models/graph/storage_sharing.h"

namespace soapstone::models {
namespace {

using compute::Format;
using compute::KernelPlan;
using Kind = SectionNode::Kind;

bool IsMessage(const BlockSource& source) { return source.kind == BlockSource::Kind::kMessage; }

// Whether the assembly is one message and nothing else.
bool IsOneMessage(const Assembly& from) {
  if (from.kind == Assembly::Kind::kPass) return IsMessage(from.source) && from.boxes.empty();
  return from.kind == Assembly::Kind::kBoxes && from.boxes.size() == 1 && from.covered &&
         IsMessage(from.boxes[0].source) && from.boxes[0].scale == 1;
}

// Boxes that give their source as it is.
bool IsWhole(const OutgoingBlock& block, int64_t elements) {
  return block.boxes.size() == 1 && block.boxes[0].move.elements() == elements &&
         block.boxes[0].scale == 1;
}

class SectionPlanner {
 public:
  SectionPlanner(const Section& section, const std::vector<const KernelPlan*>& plans)
      : section_(section),
        plans_(plans),
        parts_(section.parts.size()),
        last_read_(section.incoming.size(), 0) {
    for (size_t p = 0; p < parts_.size(); ++p) {
      const size_t inputs = section.parts[p].inputs.size();
      const size_t outputs = section.parts[p].outputs.size();
      parts_[p].in.assign(inputs, kNoValue);
      parts_[p].grads.assign(inputs, kNoValue);
      parts_[p].plain_grads.assign(inputs, kNoValue);
      parts_[p].out.assign(outputs, kNoValue);
      parts_[p].plain_out.assign(outputs, kNoValue);
      parts_[p].wants_plain_out.assign(outputs, false);
      parts_[p].wants_plain_grads.assign(inputs, false);
    }
  }

  SectionPlan Plan() {
    FindPlain();
    for (uint32_t s = 0; s < section_.steps.size(); ++s) {
      step_ = s;
      plan_.step_begin.push_back(Now());
      const SectionStep& step = section_.steps[s];
      switch (step.kind) {
        case SectionStep::Kind::kTake:
          break;
        case SectionStep::Kind::kForward:
          Forward(step.index);
          break;
        case SectionStep::Kind::kBackward:
          Backward(step.index);
          break;
        case SectionStep::Kind::kGive:
          Give(step.index);
          break;
      }
    }
    plan_.step_begin.push_back(Now());
    plan_.last_read.resize(section_.steps.size());
    for (uint32_t m = 0; m < last_read_.size(); ++m) plan_.last_read[last_read_[m]].push_back(m);
    ShareInPlace();
    return std::move(plan_);
  }

 private:
  struct PartValues {
    ValueIds in, out, grads;          // as kernels have them
    ValueIds plain_out, plain_grads;  // the same, plain
    std::vector<bool> wants_plain_out, wants_plain_grads;
    ValueId saved = kNoValue;
  };

  uint32_t Now() const { return static_cast<uint32_t>(plan_.nodes.size()); }
  ValueId NewValue(const char* what, uint32_t part, size_t bytes) {
    const auto id = static_cast<ValueId>(plan_.values.size());
    plan_.values.push_back({.name = absl::StrCat(what, section_.parts[part].name),
                            .bytes = bytes,
                            .first = Now(),
                            .last = Now(),
                            .storage = id});
    return id;
  }
  void Read(ValueId id) {
    if (id != kNoValue) plan_.values[id].last = Now();
  }
  void Add(SectionNode node) { plan_.nodes.push_back(std::move(node)); }

  const Format& OutputFormat(uint32_t part, uint32_t slot) const {
    return plans_[part]->outputs[slot];
  }
  // The format of what a kernel is given as its input.
  const Format* InputFormat(const PartInput& input) const {
    if (input.from.kind != Assembly::Kind::kPass) return nullptr;  // plain
    if (!IsMessage(input.from.source)) {
      return &OutputFormat(input.from.source.index, input.from.source.slot);
    }
    return &OutputFormat(input.made_by, input.made_slot);
  }
  static bool IsPlain(const Format* format) { return format == nullptr || format->plain(); }

  // Which outputs and gradients are wanted plain: those of which boxes are read.
  void FindPlain() {
    for (uint32_t p = 0; p < section_.own_parts; ++p) {
      for (const PartInput& input : section_.parts[p].inputs) WantPlain(input.from.boxes, false);
      for (const PartOutput& output : section_.parts[p].outputs) {
        for (const Assembly& term : output.terms) WantPlain(term.boxes, true);
      }
    }
    for (const OutgoingBlock& block : section_.outgoing) {
      if (!LeavesWhole(block)) WantPlain(block.boxes, block.backward);
    }
  }
  void WantPlain(const std::vector<Box>& boxes, bool gradients) {
    for (const Box& box : boxes) {
      if (IsMessage(box.source)) continue;
      PartValues& values = parts_[box.source.index];
      (gradients ? values.wants_plain_grads : values.wants_plain_out)[box.source.slot] = true;
    }
  }
  bool LeavesWhole(const OutgoingBlock& block) const {
    const BlockSource& source = block.boxes[0].source;
    const SectionPart& part = section_.parts[source.index];
    const compute::TensorSpec& spec =
        block.backward ? part.inputs[source.slot].spec : part.outputs[source.slot].spec;
    return IsWhole(block, spec.elements());
  }

  void ReadMessages(const Assembly& from) {
    if (IsMessage(from.source) && from.kind == Assembly::Kind::kPass && from.boxes.empty()) {
      last_read_[from.source.index] = step_;
    }
    for (const Box& box : from.boxes) {
      if (IsMessage(box.source)) last_read_[box.source.index] = step_;
    }
  }

  // A plain tensor of boxes.
  ValueId Assemble(uint32_t part, uint32_t slot, const Assembly& from, bool of_input,
                   size_t bytes) {
    SectionNode node = {.kind = Kind::kAssemble,
                        .part = part,
                        .slot = slot,
                        .of_input = of_input,
                        .assembly = &from};
    for (const Box& box : from.boxes) {
      ValueId source = kNoValue;
      if (!IsMessage(box.source)) {
        const PartValues& values = parts_[box.source.index];
        source = (of_input ? values.plain_out : values.plain_grads)[box.source.slot];
        CHECK_NE(source, kNoValue) << "a source that is not there yet";
      }
      node.sources.push_back(source);
      Read(source);
    }
    const ValueId to = NewValue(of_input ? "input " : "grad ", part, bytes);
    node.outputs = {to};
    Add(std::move(node));
    return to;
  }

  ValueId Import(uint32_t part, ValueId plain, const Assembly& from, uint32_t format_part,
                 uint32_t format_slot, const char* what) {
    const size_t bytes = OutputFormat(format_part, format_slot).bytes;
    SectionNode node = {.kind = Kind::kImport,
                        .part = part,
                        .format_part = format_part,
                        .format_slot = format_slot,
                        .assembly = &from};
    if (plain != kNoValue) node.inputs = {plain};
    Read(plain);
    const ValueId to = NewValue(what, part, bytes);
    node.outputs = {to};
    Add(std::move(node));
    return to;
  }

  ValueId Export(uint32_t part, ValueId value, uint32_t format_part, uint32_t format_slot,
                 const char* what) {
    SectionNode node = {.kind = Kind::kExport,
                        .part = part,
                        .format_part = format_part,
                        .format_slot = format_slot,
                        .inputs = {value}};
    Read(value);
    const auto bytes = static_cast<size_t>(OutputFormat(format_part, format_slot).spec.bytes());
    const ValueId to = NewValue(what, part, bytes);
    node.outputs = {to};
    Add(std::move(node));
    return to;
  }

  ValueId Clear(uint32_t part, size_t bytes, const char* what) {
    SectionNode node = {.kind = Kind::kClear, .part = part};
    const ValueId to = NewValue(what, part, bytes);
    node.outputs = {to};
    Add(std::move(node));
    return to;
  }

  ValueId InputOf(uint32_t p, uint32_t i) {
    const PartInput& input = section_.parts[p].inputs[i];
    const Assembly& from = input.from;
    const auto bytes = static_cast<size_t>(input.spec.bytes());
    ReadMessages(from);
    switch (from.kind) {
      case Assembly::Kind::kZeros:
        return Clear(p, bytes, "zeros ");
      case Assembly::Kind::kField: {
        SectionNode node = {
            .kind = Kind::kField, .part = p, .slot = i, .of_input = true, .assembly = &from};
        const ValueId to = NewValue("input ", p, bytes);
        node.outputs = {to};
        Add(std::move(node));
        return to;
      }
      case Assembly::Kind::kPass: {
        if (!IsMessage(from.source)) return parts_[from.source.index].out[from.source.slot];
        const ValueId plain = from.boxes.empty() ? kNoValue : Assemble(p, i, from, true, bytes);
        return Import(p, plain, from, input.made_by, input.made_slot, "input ");
      }
      case Assembly::Kind::kBoxes:
        return Assemble(p, i, from, true, bytes);
    }
    return kNoValue;
  }

  ValueId Scratch(uint32_t p, size_t bytes) {
    return bytes == 0 ? kNoValue : NewValue("scratch ", p, bytes);
  }

  void Forward(uint32_t p) {
    const SectionPart& part = section_.parts[p];
    const KernelPlan& plan = *plans_[p];
    PartValues& values = parts_[p];
    for (uint32_t i = 0; i < part.inputs.size(); ++i) values.in[i] = InputOf(p, i);
    SectionNode node = {.kind = Kind::kForward, .part = p, .no_work = plan.alias};
    node.inputs = values.in;
    for (const ValueId id : node.inputs) Read(id);
    for (uint32_t j = 0; j < part.outputs.size(); ++j) {
      values.out[j] = values.plain_out[j] = NewValue("", p, plan.outputs[j].bytes);
    }
    node.outputs = values.out;
    if (plan.alias) Alias(values.out[0], values.in[0]);
    if (plan.saved_bytes > 0) {
      node.saved = values.saved = NewValue("saved ", p, plan.saved_bytes);
    }
    node.scratch = Scratch(p, plan.forward_scratch_bytes);
    Add(std::move(node));
    for (uint32_t j = 0; j < part.outputs.size(); ++j) {
      if (!values.wants_plain_out[j] || plan.outputs[j].plain()) continue;
      values.plain_out[j] = Export(p, values.out[j], p, j, "plain ");
    }
  }

  // The gradient of an output: the only term, or the sum of all.
  ValueId OutputGradient(uint32_t p, uint32_t j) {
    const PartOutput& output = section_.parts[p].outputs[j];
    const Format& format = OutputFormat(p, j);
    if (output.terms.empty()) {
      return section_.parts[p].is_loss() ? kNoValue : Clear(p, format.bytes, "grad ");
    }
    ValueIds terms;
    for (const Assembly& term : output.terms) {
      ReadMessages(term);
      if (term.kind == Assembly::Kind::kPass) {
        terms.push_back(parts_[term.source.index].grads[term.source.slot]);
        continue;
      }
      if (IsOneMessage(term)) {
        terms.push_back(Import(p, kNoValue, term, p, j, "grad "));
        continue;
      }
      ValueId value = Assemble(p, j, term, false, static_cast<size_t>(output.spec.bytes()));
      if (!format.plain()) value = Import(p, value, term, p, j, "grad ");
      terms.push_back(value);
    }
    if (terms.size() == 1) return terms[0];
    SectionNode sum = {
        .kind = Kind::kSum, .part = p, .format_part = p, .format_slot = j, .output_grads = terms};
    for (const ValueId term : terms) Read(term);
    const ValueId out = NewValue("grad ", p, format.bytes);
    sum.input_grads = {out};
    Add(std::move(sum));
    return out;
  }

  void Backward(uint32_t p) {
    const SectionPart& part = section_.parts[p];
    const KernelPlan& plan = *plans_[p];
    PartValues& values = parts_[p];
    ValueIds gradients;
    for (uint32_t j = 0; j < part.outputs.size(); ++j) gradients.push_back(OutputGradient(p, j));
    SectionNode node = {
        .kind = Kind::kBackward, .part = p, .no_work = plan.alias || plan.backward_alias};
    node.output_grads = gradients;
    for (uint32_t j = 0; j < part.outputs.size(); ++j) {
      node.outputs.push_back(plan.backward_reads_output[j] ? values.out[j] : kNoValue);
      Read(gradients[j]);
      Read(node.outputs.back());
    }
    for (uint32_t i = 0; i < part.inputs.size(); ++i) {
      node.inputs.push_back(plan.backward_reads_input[i] ? values.in[i] : kNoValue);
      Read(node.inputs.back());
    }
    node.saved = values.saved;
    Read(node.saved);
    for (uint32_t i = 0; i < part.inputs.size(); ++i) {
      ValueId grad = kNoValue;
      if (part.inputs[i].gradient) {
        const Format* format = InputFormat(part.inputs[i]);
        grad = NewValue(
            "grad of ", p,
            format == nullptr ? static_cast<size_t>(part.inputs[i].spec.bytes()) : format->bytes);
        if (node.no_work) Alias(grad, node.output_grads[0]);
      }
      node.input_grads.push_back(grad);
      values.grads[i] = values.plain_grads[i] = grad;
    }
    node.scratch = Scratch(p, plan.backward_scratch_bytes);
    Add(std::move(node));
    for (uint32_t i = 0; i < part.inputs.size(); ++i) FinishInputGradient(p, i);
  }

  void FinishInputGradient(uint32_t p, uint32_t i) {
    const PartInput& input = section_.parts[p].inputs[i];
    PartValues& values = parts_[p];
    if (!input.gradient) return;
    if (input.relu) {
      SectionNode mask = {.kind = Kind::kMask, .part = p, .slot = i};
      mask.inputs = {values.grads[i], values.in[i]};
      for (const ValueId id : mask.inputs) Read(id);
      const ValueId to = NewValue("grad of ", p, static_cast<size_t>(input.spec.bytes()));
      mask.outputs = {to};
      Add(std::move(mask));
      values.grads[i] = values.plain_grads[i] = to;
      return;
    }
    const Format* format = InputFormat(input);
    if (!values.wants_plain_grads[i] || IsPlain(format)) return;
    const bool message = IsMessage(input.from.source);
    values.plain_grads[i] =
        Export(p, values.grads[i], message ? input.made_by : input.from.source.index,
               message ? input.made_slot : input.from.source.slot, "plain ");
  }

  void Give(uint32_t g) {
    const OutgoingBlock& block = section_.outgoing[g];
    const BlockSource& first = block.boxes[0].source;
    SectionNode node = {.kind = Kind::kGive, .part = g};
    if (LeavesWhole(block)) {
      const PartInput* input =
          block.backward ? &section_.parts[first.index].inputs[first.slot] : nullptr;
      const PartValues& values = parts_[first.index];
      const ValueId value = block.backward ? values.grads[first.slot] : values.out[first.slot];
      SetFormat(first, input, &node);
      node.inputs = {value};
      Read(value);
      return Add(std::move(node));
    }
    for (const Box& box : block.boxes) {
      const PartValues& values = parts_[box.source.index];
      node.sources.push_back(
          (block.backward ? values.plain_grads : values.plain_out)[box.source.slot]);
      Read(node.sources.back());
    }
    Add(std::move(node));
  }

  // no_work: what leaves is plain.
  void SetFormat(const BlockSource& of, const PartInput* input, SectionNode* node) const {
    if (input == nullptr) {
      node->format_part = of.index;
      node->format_slot = of.slot;
      return;
    }
    node->no_work = IsPlain(InputFormat(*input));
    if (node->no_work) return;
    const bool message = IsMessage(input->from.source);
    node->format_part = message ? input->made_by : input->from.source.index;
    node->format_slot = message ? input->made_slot : input->from.source.slot;
  }

  void Alias(ValueId value, ValueId of) { plan_.values[value].storage = plan_.values[of].storage; }

  void ShareInPlace() {
    StorageSharing sharing(&plan_.values);
    for (uint32_t index = 0; index < plan_.nodes.size(); ++index) {
      const SectionNode& node = plan_.nodes[index];
      if (node.no_work) continue;
      if (node.kind == Kind::kMask) {
        sharing.Share(index, node.inputs[0], node.inputs, node.outputs[0]);
      }
      if (node.kind == Kind::kForward && plans_[node.part]->forward_in_place) {
        sharing.Share(index, node.inputs[0], node.inputs, node.outputs[0]);
      }
      if (node.kind == Kind::kBackward && plans_[node.part]->backward_in_place) {
        const ValueId from = node.output_grads[0];
        sharing.Share(index, from, {from}, node.input_grads[0]);
      }
    }
  }

  const Section& section_;
  const std::vector<const KernelPlan*>& plans_;
  std::vector<PartValues> parts_;
  std::vector<uint32_t> last_read_;  // by incoming block: the last step that reads it
  uint32_t step_ = 0;
  SectionPlan plan_;
};

}  // namespace

SectionPlan PlanSection(const Section& section, const std::vector<const KernelPlan*>& plans) {
  CHECK_EQ(plans.size(), section.parts.size());
  return SectionPlanner(section, plans).Plan();
}

}  // namespace soapstone::models
