#include "models/graph/step_graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "models/graph/storage_sharing.h"

namespace soapstone::models {
namespace {

using compute::KernelPlan;

class StepGraphBuilder {
 public:
  StepGraphBuilder(const Graph& graph, int64_t samples, const std::vector<const KernelPlan*>& plans,
                   const StepOptions& options)
      : graph_(graph),
        plans_(plans),
        options_(options),
        wanted_(GradientsWanted(graph, options.input_gradients)),
        activation_(graph.tensors().size(), kNoValue),
        kept_(graph.tensors().size(), true),
        saved_(graph.ops().size(), kNoValue),
        terms_(graph.tensors().size()) {
    for (TensorId input : graph.inputs()) {
      const Tensor& tensor = graph.tensor(input);
      const auto bytes = static_cast<size_t>(tensor.spec(samples).bytes());
      activation_[Index(input)] = NewValue("", tensor.name, bytes);
      step_.inputs.push_back(activation_[Index(input)]);
    }
  }

  StepGraph Build() {
    MarkKept();
    const auto ops = static_cast<uint32_t>(graph_.ops().size());
    for (uint32_t k = 0; k < ops; ++k) Forward(k, false);
    KeepForReading();
    step_.backward_begin.assign(ops, 0);
    step_.backward_end.assign(ops, 0);
    if (options_.training) {
      uint32_t end = ops;
      for (size_t s = options_.segments.size() + 1; s-- > 0;) {
        const uint32_t begin = s == 0 ? 0 : options_.segments[s - 1];
        BackwardOfSegment(begin, end);
        end = begin;
      }
    }
    if (options_.keep_loss) {
      step_.values[step_.loss].last = static_cast<uint32_t>(step_.nodes.size() - 1);
    }
    KeepInputGradients();
    StorageSharing sharing(&step_.values);
    for (uint32_t node = 0; node < step_.nodes.size(); ++node) ShareInPlace(node, &sharing);
    return std::move(step_);
  }

 private:
  // `what` is "grad " and the like.
  ValueId NewValue(const char* what, const std::string& of, size_t bytes) {
    const auto id = static_cast<ValueId>(step_.values.size());
    const auto now = static_cast<uint32_t>(step_.nodes.size());
    step_.values.push_back({.name = options_.named ? absl::StrCat(what, of) : std::string(),
                            .bytes = bytes,
                            .first = now,
                            .last = now,
                            .storage = id});
    return id;
  }
  // Nodes are appended when all of their values are known: `now` is the node being made.
  void Read(ValueId id) {
    if (id != kNoValue) step_.values[id].last = static_cast<uint32_t>(step_.nodes.size());
  }
  ValueId Scratch(const Op& op, size_t bytes) {
    return bytes == 0 ? kNoValue : NewValue("scratch ", op.name, bytes);
  }
  bool IsLastSegment(uint32_t op) const {
    return options_.segments.empty() || op >= options_.segments.back();
  }
  uint32_t SegmentOf(uint32_t op) const {
    return static_cast<uint32_t>(
        std::upper_bound(options_.segments.begin(), options_.segments.end(), op) -
        options_.segments.begin());
  }

  // A tensor is kept from the first forward pass if its segment is the last, or another reads it.
  void MarkKept() {
    std::vector<uint32_t> made_in(graph_.tensors().size(), UINT32_MAX);
    for (uint32_t k = 0; k < graph_.ops().size(); ++k) {
      for (TensorId out : graph_.ops()[k].outputs) {
        made_in[Index(out)] = SegmentOf(k);
        kept_[Index(out)] = IsLastSegment(k);
      }
    }
    for (uint32_t k = 0; k < graph_.ops().size(); ++k) {
      for (TensorId in : graph_.ops()[k].inputs) {
        if (made_in[Index(in)] != SegmentOf(k)) kept_[Index(in)] = true;
      }
    }
  }

  void Forward(uint32_t k, bool again) {
    const Op& op = graph_.ops()[k];
    const KernelPlan& plan = *plans_[k];
    Node node = {.kind = NodeKind::kForward, .op = k, .again = again, .no_work = plan.alias};
    for (TensorId in : op.inputs) {
      node.inputs.push_back(activation_[Index(in)]);
      Read(node.inputs.back());
    }
    for (size_t j = 0; j < op.outputs.size(); ++j) {
      // What was kept need not be written again, but a kernel writes all of its outputs.
      const ValueId out = NewValue("", graph_.tensor(op.outputs[j]).name, plan.outputs[j].bytes);
      node.outputs.push_back(out);
      if (!again || !kept_[Index(op.outputs[j])]) activation_[Index(op.outputs[j])] = out;
    }
    if (plan.alias) Alias(node.outputs[0], node.inputs[0]);
    if (plan.saved_bytes > 0) {
      node.saved = saved_[k] = NewValue("saved ", op.name, plan.saved_bytes);
    }
    node.scratch = Scratch(op, plan.forward_scratch_bytes);
    step_.nodes.push_back(std::move(node));
  }

  // What the caller may look at after the forward pass.
  void KeepForReading() {
    const Op& loss = graph_.ops().back();
    step_.logits = activation_[Index(loss.inputs[0])];
    step_.loss = activation_[Index(loss.outputs[0])];
    step_.correct = activation_[Index(loss.outputs[1])];
    for (ValueId id : {step_.logits, step_.loss, step_.correct}) {
      step_.values[id].last = static_cast<uint32_t>(step_.nodes.size() - 1);
    }
  }

  // After the backward pass the caller may look at them, as they lie in the plan until its end.
  void KeepInputGradients() {
    step_.input_grads.assign(graph_.inputs().size(), kNoValue);
    if (!options_.training) return;
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueIds& terms = terms_[Index(graph_.inputs()[i])];
      if (terms.empty()) continue;
      CHECK_EQ(terms.size(), 1u) << "an input whose gradient is wanted has one reader";
      step_.input_grads[i] = terms[0];
      step_.values[terms[0]].last = static_cast<uint32_t>(step_.nodes.size() - 1);
    }
  }

  void BackwardOfSegment(uint32_t begin, uint32_t end) {
    const auto first = static_cast<uint32_t>(step_.nodes.size());
    if (!IsLastSegment(begin)) ForwardAgain(begin, end);
    for (uint32_t k = end; k-- > begin;) {
      // What is computed again belongs to the first operator that runs backward.
      step_.backward_begin[k] = k + 1 == end ? first : static_cast<uint32_t>(step_.nodes.size());
      Backward(k);
      step_.backward_end[k] = static_cast<uint32_t>(step_.nodes.size());
    }
  }

  // Operators of the segment whose outputs, or what they save, the backward pass needs.
  void ForwardAgain(uint32_t begin, uint32_t end) {
    std::vector<bool> needed(graph_.tensors().size());
    std::vector<bool> runs(end - begin);
    for (uint32_t k = end; k-- > begin;) {
      const Op& op = graph_.ops()[k];
      const KernelPlan& plan = *plans_[k];
      bool run = plan.saved_bytes > 0 && HasBackward(k);
      for (size_t j = 0; j < op.outputs.size(); ++j) {
        const size_t t = Index(op.outputs[j]);
        run |= !kept_[t] && (needed[t] || (HasBackward(k) && plan.backward_reads_output[j]));
      }
      runs[k - begin] = run;
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const bool reads = HasBackward(k) && plan.backward_reads_input[i];
        if (run || reads) needed[Index(op.inputs[i])] = true;
      }
    }
    for (uint32_t k = begin; k < end; ++k) {
      if (runs[k - begin]) Forward(k, true);
    }
  }

  bool HasBackward(uint32_t k) const {
    const Op& op = graph_.ops()[k];
    if (!op.params.empty()) return true;
    return std::any_of(op.inputs.begin(), op.inputs.end(),
                       [&](TensorId in) { return wanted_[Index(in)]; });
  }

  // The gradient of a tensor: the only term, or the sum of all. kNoValue: there is none.
  ValueId GradientOf(uint32_t k, TensorId tensor) {
    const ValueIds terms = std::move(terms_[Index(tensor)]);
    if (terms.empty()) return kNoValue;
    if (terms.size() == 1) return terms[0];
    Node sum = {.kind = NodeKind::kSum, .op = k, .output_grads = terms};
    for (ValueId term : terms) Read(term);
    const ValueId out = NewValue("grad ", graph_.tensor(tensor).name, step_.values[terms[0]].bytes);
    sum.input_grads = {out};
    step_.nodes.push_back(std::move(sum));
    return out;
  }

  ValueId OutputGradient(uint32_t k, size_t j, ValueId found) {
    const bool is_loss = k + 1 == graph_.ops().size();
    if (found != kNoValue || is_loss) return found;
    const std::string& name = graph_.tensor(graph_.ops()[k].outputs[j]).name;
    const ValueId zero = NewValue("grad ", name, plans_[k]->outputs[j].bytes);
    step_.zeros.push_back(zero);
    return zero;
  }

  void Backward(uint32_t k) {
    if (!HasBackward(k)) return;
    const Op& op = graph_.ops()[k];
    const KernelPlan& plan = *plans_[k];
    ValueIds found;
    for (TensorId out : op.outputs) found.push_back(GradientOf(k, out));
    Node node = {
        .kind = NodeKind::kBackward, .op = k, .no_work = plan.alias || plan.backward_alias};
    for (size_t j = 0; j < op.outputs.size(); ++j) {
      node.output_grads.push_back(OutputGradient(k, j, found[j]));
      Read(node.output_grads.back());
      const bool reads = plan.backward_reads_output[j];
      node.outputs.push_back(reads ? activation_[Index(op.outputs[j])] : kNoValue);
      Read(node.outputs.back());
    }
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const bool reads = plan.backward_reads_input[i];
      node.inputs.push_back(reads ? activation_[Index(op.inputs[i])] : kNoValue);
      Read(node.inputs.back());
    }
    node.saved = plan.saved_bytes > 0 ? saved_[k] : kNoValue;
    Read(node.saved);
    AddInputGradients(op, &node);
    node.scratch = Scratch(op, plan.backward_scratch_bytes);
    step_.nodes.push_back(std::move(node));
  }

  void AddInputGradients(const Op& op, Node* node) {
    for (TensorId in : op.inputs) {
      if (!wanted_[Index(in)]) {
        node->input_grads.push_back(kNoValue);
        continue;
      }
      const ValueId grad =
          NewValue("grad ", graph_.tensor(in).name, step_.values[activation_[Index(in)]].bytes);
      node->input_grads.push_back(grad);
      terms_[Index(in)].push_back(grad);
      if (node->no_work) Alias(grad, node->output_grads[0]);
    }
  }

  void Alias(ValueId value, ValueId of) { step_.values[value].storage = step_.values[of].storage; }

  // A kernel that may run in place does, where nothing in that memory is read afterwards.
  void ShareInPlace(uint32_t index, StorageSharing* sharing) const {
    const Node& node = step_.nodes[index];
    if (node.kind == NodeKind::kSum || node.no_work) return;
    const KernelPlan& plan = *plans_[node.op];
    const bool forward = node.kind == NodeKind::kForward;
    if (!(forward ? plan.forward_in_place : plan.backward_in_place)) return;
    const ValueId from = forward ? node.inputs[0] : node.output_grads[0];
    if (from != kNoValue &&
        std::count(step_.inputs.begin(), step_.inputs.end(), step_.values[from].storage) > 0) {
      return;
    }
    sharing->Share(index, from, forward ? node.inputs : ValueIds{from},
                   forward ? node.outputs[0] : node.input_grads[0]);
  }

  const Graph& graph_;
  const std::vector<const KernelPlan*>& plans_;
  const StepOptions& options_;
  const std::vector<bool> wanted_;
  std::vector<ValueId> activation_;  // by tensor: the value that stands for it now
  std::vector<bool> kept_;           // by tensor: from the first forward pass on
  std::vector<ValueId> saved_;       // by operator
  std::vector<ValueIds> terms_;      // by tensor: gradients from its readers so far
  StepGraph step_;
};

}  // namespace

std::vector<bool> GradientsWanted(const Graph& graph, const std::vector<TensorId>& inputs) {
  std::vector<bool> wanted(graph.tensors().size());
  for (TensorId input : inputs) wanted[Index(input)] = true;
  for (const Op& op : graph.ops()) {
    bool any = !op.params.empty();
    for (TensorId in : op.inputs) any = any || wanted[Index(in)];
    for (TensorId out : op.outputs) wanted[Index(out)] = any;
  }
  return wanted;
}

std::vector<bool> InputGradientsWanted(const Graph& graph, const std::vector<bool>& wanted,
                                       const Op& op) {
  std::vector<bool> inputs;
  for (TensorId in : op.inputs) {
    inputs.push_back(wanted[Index(in)] && graph.tensor(in).type == DataType::kFloat32);
  }
  return inputs;
}

StepGraph BuildStepGraph(const Graph& graph, int64_t samples,
                         const std::vector<const compute::KernelPlan*>& plans,
                         const StepOptions& options) {
  CHECK_EQ(plans.size(), graph.ops().size());
  return StepGraphBuilder(graph, samples, plans, options).Build();
}

std::vector<uint32_t> CutPoints(const Graph& graph) {
  std::vector<uint32_t> last_reader(graph.tensors().size(), 0);
  for (uint32_t k = 0; k < graph.ops().size(); ++k) {
    for (TensorId in : graph.ops()[k].inputs) last_reader[Index(in)] = k;
  }
  // A tensor is alive before the operators behind the one that makes it, to its last reader.
  std::vector<int64_t> change(graph.ops().size() + 2);
  for (uint32_t k = 0; k < graph.ops().size(); ++k) {
    for (TensorId out : graph.ops()[k].outputs) {
      if (last_reader[Index(out)] <= k) continue;
      ++change[k + 1];
      --change[last_reader[Index(out)] + 1];
    }
  }
  std::vector<uint32_t> cuts;
  int64_t alive = 0;
  for (uint32_t k = 0; k < graph.ops().size(); ++k) {
    alive += change[k];
    if (k > 0 && alive == 1) cuts.push_back(k);
  }
  return cuts;
}

}  // namespace soapstone::models
