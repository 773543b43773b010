#include "compute/cpu/plain_inputs.h"

#include <algorithm>
#include <vector>

#include "compute/cpu/formats.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

class PlainedKernel : public Kernel {
 public:
  struct Parts {
    std::unique_ptr<Kernel> inner;
    std::vector<PlainInput> forward, backward;
    std::vector<PlainOutput> grads;
    size_t forward_inner = 0, backward_inner = 0;  // offsets of the inner kernel's scratch
  };
  PlainedKernel(KernelPlan plan, const CpuContext& context, Parts parts)
      : Kernel(std::move(plan)), context_(context), parts_(std::move(parts)) {}

  void Forward(const ForwardArgs& args) override {
    const CpuThreads guard(context_.threads);
    std::vector<const void*> inputs(args.inputs.begin(), args.inputs.end());
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = parts_.forward[i].Get<void>(inputs[i], args.scratch);
    }
    ForwardArgs inner = args;
    inner.inputs = inputs;
    inner.scratch = At<void>(args.scratch, parts_.forward_inner);
    parts_.inner->Forward(inner);
  }

  void Backward(const BackwardArgs& args) override {
    const CpuThreads guard(context_.threads);
    std::vector<const void*> inputs(args.inputs.begin(), args.inputs.end());
    std::vector<void*> grads(args.input_grads.begin(), args.input_grads.end());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!plan().backward_reads_input[i] || inputs[i] == nullptr) continue;
      inputs[i] = parts_.backward[i].Get<void>(inputs[i], args.scratch);
    }
    for (size_t i = 0; i < grads.size(); ++i) {
      if (grads[i] != nullptr) grads[i] = parts_.grads[i].Get<void>(grads[i], args.scratch);
    }
    BackwardArgs inner = args;
    inner.inputs = inputs;
    inner.input_grads = absl::MakeSpan(grads);
    inner.scratch = At<void>(args.scratch, parts_.backward_inner);
    parts_.inner->Backward(inner);
    for (size_t i = 0; i < grads.size(); ++i) {
      if (grads[i] != nullptr) parts_.grads[i].Finish(args.input_grads[i], args.scratch);
    }
  }

 private:
  const CpuContext& context_;
  Parts parts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> WithPlainInputs(const KernelRequest& request,
                                                        const CpuContext& context,
                                                        const PlainMake& make) {
  KernelRequest plain = request;
  for (Format& format : plain.inputs) format = PlainFormat(format.spec);
  absl::StatusOr<std::unique_ptr<Kernel>> made = make(plain);
  const bool given = std::all_of(request.inputs.begin(), request.inputs.end(),
                                 [](const Format& format) { return format.plain(); });
  if (!made.ok() || given) return made;
  KernelPlan plan = (*made)->plan();
  CHECK(!plan.alias && !plan.backward_alias);
  plan.forward_in_place = plan.forward_in_place && request.inputs[0].plain();
  plan.backward_in_place = plan.backward_in_place && request.inputs[0].plain();
  return GuardedMake(request, context, [&]() -> std::unique_ptr<Kernel> {
    PlainedKernel::Parts parts;
    Arena forward, backward;
    for (const Format& format : request.inputs) {
      parts.forward.emplace_back(format, context, &forward);
      parts.backward.emplace_back(format, context, &backward);
      parts.grads.emplace_back(format, context, &backward);
    }
    parts.forward_inner = forward.Take(plan.forward_scratch_bytes);
    parts.backward_inner = backward.Take(plan.backward_scratch_bytes);
    plan.forward_scratch_bytes = forward.bytes();
    plan.backward_scratch_bytes = backward.bytes();
    parts.inner = *std::move(made);
    return std::make_unique<PlainedKernel>(std::move(plan), context, std::move(parts));
  });
}

}  // namespace soapstone::compute
