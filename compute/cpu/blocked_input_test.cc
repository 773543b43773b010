// Every operator behind producers that leave a layout of oneDNN's: compared with the reference.
#include <memory>
#include <utility>
#include <vector>

#include "compute/cpu/backend.h"
#include "compute/cpu/formats.h"
#include "compute/reference/backend.h"
#include "compute/testing/operator_cases.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

// In blocks of 16 along the second axis, the rest of the last block padding.
Format Blocked(const Format& plain) {
  const TensorSpec& spec = plain.spec;
  if (spec.type != DataType::kFloat32) return plain;
  const auto blocked = [&](DnnlTag tag) {
    return FormatOf(spec, DnnlDesc(spec.shape, dnnl::memory::data_type::f32, tag));
  };
  if (spec.shape.size() == 3) return blocked(DnnlTag::aBc16b);
  if (spec.shape.size() == 4) return blocked(DnnlTag::aBcd16b);
  return plain;
}

using BlockedTensor = std::shared_ptr<void>;

// A kernel of plain tensors that copies them to and from one whose inputs are blocked, all in
// memory of its own.
class BehindBlocked : public Kernel {
 public:
  BehindBlocked(KernelPlan plan, Backend* backend, std::unique_ptr<Kernel> inner,
                std::vector<Format> inputs)
      : Kernel(std::move(plan)),
        backend_(backend),
        inner_(std::move(inner)),
        formats_(std::move(inputs)) {
    const KernelPlan& p = inner_->plan();
    for (const Format& f : formats_) inputs_.push_back(Allocate(f.bytes));
    for (const Format& f : formats_) input_grads_.push_back(Allocate(f.bytes));
    for (const Format& f : p.outputs) outputs_.push_back(Allocate(f.bytes));
    for (const Format& f : p.outputs) output_grads_.push_back(Allocate(f.bytes));
    if (p.alias) outputs_[0] = inputs_[0];
    if (p.alias) output_grads_[0] = input_grads_[0];
  }

  void Forward(const ForwardArgs& a) override {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      backend_->Import(a.inputs[i], formats_[i], inputs_[i].get());
    }
    const std::vector<const void*> inputs = Raw<const void*>(inputs_);
    const std::vector<void*> outputs = Raw<void*>(outputs_);
    ForwardArgs inner = a;
    inner.inputs = inputs;
    inner.outputs = outputs;
    inner_->Forward(inner);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      backend_->Export(inner_->plan().outputs[i], outputs_[i].get(), a.outputs[i]);
    }
  }

  void Backward(const BackwardArgs& a) override {
    const KernelPlan& p = inner_->plan();
    for (size_t i = 0; i < a.output_grads.size(); ++i) {
      backend_->Import(a.output_grads[i], p.outputs[i], output_grads_[i].get());
    }
    const std::vector<const void*> inputs = Raw<const void*>(inputs_);
    const std::vector<const void*> outputs = Raw<const void*>(outputs_);
    const std::vector<const void*> output_grads = Raw<const void*>(output_grads_);
    std::vector<void*> input_grads = Raw<void*>(input_grads_);
    for (size_t i = 0; i < input_grads.size(); ++i) {
      if (a.input_grads[i] == nullptr) input_grads[i] = nullptr;
    }
    BackwardArgs inner = a;
    inner.inputs = inputs;
    inner.outputs = outputs;
    inner.output_grads = output_grads;
    inner.input_grads = input_grads;
    if (!p.backward_alias) inner_->Backward(inner);
    for (size_t i = 0; i < input_grads.size(); ++i) {
      const BlockedTensor& from = p.backward_alias ? output_grads_[0] : input_grads_[i];
      if (input_grads[i] != nullptr) backend_->Export(formats_[i], from.get(), a.input_grads[i]);
    }
  }

 private:
  BlockedTensor Allocate(size_t bytes) { return backend_->Allocate(bytes).value(); }
  template <typename Pointer>
  static std::vector<Pointer> Raw(const std::vector<BlockedTensor>& tensors) {
    std::vector<Pointer> raw;
    for (const BlockedTensor& t : tensors) raw.push_back(t.get());
    return raw;
  }

  Backend* const backend_;
  const std::unique_ptr<Kernel> inner_;
  const std::vector<Format> formats_;
  std::vector<BlockedTensor> inputs_, input_grads_, outputs_, output_grads_;
};

class BlockedBackend : public Backend {
 public:
  std::string_view name() const override { return "blocked"; }
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) override {
    KernelRequest blocked = request;
    for (Format& format : blocked.inputs) format = Blocked(format);
    auto kernel = cpu_->Prepare(blocked);
    if (!kernel.ok()) return kernel.status();
    const KernelPlan& inner = (*kernel)->plan();
    KernelPlan plan = {.saved_bytes = inner.saved_bytes,
                       .forward_scratch_bytes = inner.forward_scratch_bytes,
                       .backward_scratch_bytes = inner.backward_scratch_bytes};
    for (const TensorSpec& spec : request.outputs) plan.outputs.push_back(PlainFormat(spec));
    plan.backward_reads_input.assign(request.inputs.size(), true);
    plan.backward_reads_output.assign(request.outputs.size(), true);
    return std::make_unique<BehindBlocked>(std::move(plan), cpu_.get(), *std::move(kernel),
                                           blocked.inputs);
  }
  absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes) override {
    return cpu_->Allocate(bytes);
  }
  void Import(const void* plain, const Format& format, void* tensor) override {
    cpu_->Import(plain, format, tensor);
  }
  void Export(const Format& format, const void* tensor, void* plain) override {
    cpu_->Export(format, tensor, plain);
  }

 private:
  const std::unique_ptr<Backend> cpu_ = MakeCpuBackend({});
};

std::vector<OperatorCase> CasesWithBlockedInputs() {
  std::vector<OperatorCase> cases;
  for (OperatorCase& c : OperatorCases()) {
    if (!Blocked(PlainFormat(c.inputs[0])).plain()) cases.push_back(std::move(c));
  }
  return cases;
}

using BlockedResults = std::vector<std::vector<float>>;
void ExpectBlockedNear(const BlockedResults& got, const BlockedResults& expected,
                       const char* what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(RelativeError(got[i], expected[i]), 1e-5) << what << " " << i;
  }
}

class CpuBehindBlocked : public testing::TestWithParam<OperatorCase> {};

TEST_P(CpuBehindBlocked, ComputesWhatTheReferenceDoes) {
  const CaseValues values = ValuesOf(GetParam(), 4);
  const auto expected = RunCase(MakeReferenceBackend().get(), GetParam(), values);
  ASSERT_TRUE(expected.ok()) << expected.status();
  BlockedBackend blocked;
  const auto result = RunCase(&blocked, GetParam(), values);
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectBlockedNear(result->outputs, expected->outputs, "output");
  ExpectBlockedNear(result->input_grads, expected->input_grads, "gradient of input");
  ExpectBlockedNear(result->param_grads, expected->param_grads, "gradient of parameter");
}

INSTANTIATE_TEST_SUITE_P(Cases, CpuBehindBlocked, testing::ValuesIn(CasesWithBlockedInputs()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace soapstone::compute
