// Every case of every operator against the reference: from plain inputs, and from those that a
// convolution would leave, in blocks of channels or with the channels innermost.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "compute/cpu/backend.h"
#include "compute/cpu/formats.h"
#include "compute/reference/backend.h"
#include "compute/testing/operator_cases.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

constexpr double kTolerance = 1e-5;

// ThreadSanitizer does not see how the OpenMP runtime orders its threads.
#ifdef __SANITIZE_THREAD__
constexpr int kThreadCounts[] = {1};
#else
constexpr int kThreadCounts[] = {1, 2};
#endif

std::vector<OperatorCase> CasesOfImages() {
  std::vector<OperatorCase> cases;
  for (OperatorCase& c : OperatorCases()) {
    if (c.inputs[0].shape.size() == 4) cases.push_back(std::move(c));
  }
  return cases;
}

// Padding is there (17 channels, not 32) and must hold zeros: a round trip by way of plain memory
// changes nothing.
bool PaddingIsZero(Backend* backend, const Format& format, const void* tensor) {
  std::vector<float> plain(static_cast<size_t>(format.spec.elements()));
  backend->Export(format, tensor, plain.data());
  const std::shared_ptr<void> again = *backend->Allocate(format.bytes);
  std::memset(again.get(), 0, format.bytes);
  backend->Import(plain.data(), format, again.get());
  const float* a = static_cast<const float*>(tensor);
  return std::equal(a, a + format.bytes / sizeof(float), static_cast<const float*>(again.get()));
}

// A kernel prepared for inputs in another layout, behind plain ones.
class RelaidKernel : public Kernel {
 public:
  RelaidKernel(KernelPlan plan, Backend* backend, std::unique_ptr<Kernel> inner,
               std::vector<Format> inputs)
      : Kernel(std::move(plan)),
        backend_(backend),
        inner_(std::move(inner)),
        formats_(std::move(inputs)) {}

  void Forward(const ForwardArgs& args) override {
    inputs_ = Allocated();
    for (size_t i = 0; i < formats_.size(); ++i) {
      backend_->Import(args.inputs[i], formats_[i], inputs_[i].get());
    }
    std::vector<const void*> inputs = Pointers<const void*>(inputs_);
    std::vector<void*> outputs(args.outputs.begin(), args.outputs.end());
    if (inner_->plan().alias) outputs[0] = inputs_[0].get();
    ForwardArgs relaid = args;
    relaid.inputs = inputs;
    relaid.outputs = absl::MakeSpan(outputs);
    inner_->Forward(relaid);
    if (inner_->plan().alias) {
      std::memcpy(args.outputs[0], inputs_[0].get(), plan().outputs[0].bytes);
    }
    for (size_t i = 0; i < args.outputs.size(); ++i) {
      EXPECT_TRUE(PaddingIsZero(backend_, plan().outputs[i], args.outputs[i])) << "output " << i;
    }
  }

  void Backward(const BackwardArgs& args) override {
    const KernelPlan& inner = inner_->plan();
    std::vector<std::shared_ptr<void>> grads = Allocated();
    for (size_t i = 0; i < formats_.size(); ++i) {
      if (args.input_grads[i] == nullptr) grads[i] = nullptr;
      if (!inner.backward_reads_input[i]) inputs_[i] = nullptr;
    }
    std::vector<const void*> inputs = Pointers<const void*>(inputs_);
    std::vector<void*> input_grads = Pointers<void*>(grads);
    BackwardArgs relaid = args;
    relaid.inputs = inputs;
    relaid.input_grads = absl::MakeSpan(input_grads);
    inner_->Backward(relaid);
    for (size_t i = 0; i < formats_.size(); ++i) {
      if (grads[i] == nullptr) continue;
      if (inner.alias || inner.backward_alias) {
        std::memcpy(grads[i].get(), args.output_grads[0], formats_[i].bytes);
      }
      EXPECT_TRUE(PaddingIsZero(backend_, formats_[i], grads[i].get())) << "gradient " << i;
      backend_->Export(formats_[i], grads[i].get(), args.input_grads[i]);
    }
  }

 private:
  std::vector<std::shared_ptr<void>> Allocated() const {
    std::vector<std::shared_ptr<void>> tensors;
    for (const Format& format : formats_) {
      tensors.push_back(*backend_->Allocate(format.bytes));
      std::memset(tensors.back().get(), 0xff, format.bytes);
    }
    return tensors;
  }
  template <typename Pointer>
  static std::vector<Pointer> Pointers(const std::vector<std::shared_ptr<void>>& tensors) {
    std::vector<Pointer> pointers;
    for (const auto& tensor : tensors) pointers.push_back(tensor.get());
    return pointers;
  }

  Backend* const backend_;
  const std::unique_ptr<Kernel> inner_;
  const std::vector<Format> formats_;
  std::vector<std::shared_ptr<void>> inputs_;
};

// Prepares for images in the layout `tag`; of several inputs for the last alone, if `only_last`.
class RelaidBackend : public Backend {
 public:
  RelaidBackend(Backend* backend, DnnlTag tag, bool only_last)
      : backend_(backend), tag_(tag), only_last_(only_last) {}
  std::string_view name() const override { return "relaid"; }

  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) override {
    KernelRequest relaid = request;
    for (size_t i = only_last_ ? relaid.inputs.size() - 1 : 0; i < relaid.inputs.size(); ++i) {
      Format& format = relaid.inputs[i];
      if (format.spec.shape.size() != 4) continue;
      format =
          FormatOf(format.spec, DnnlDesc(format.spec.shape, dnnl::memory::data_type::f32, tag_));
    }
    absl::StatusOr<std::unique_ptr<Kernel>> inner = backend_->Prepare(relaid);
    if (!inner.ok()) return inner;
    KernelPlan plan = (*inner)->plan();
    plan.alias = plan.backward_alias = plan.forward_in_place = plan.backward_in_place = false;
    return std::make_unique<RelaidKernel>(std::move(plan), backend_, *std::move(inner),
                                          relaid.inputs);
  }
  absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes) override {
    return backend_->Allocate(bytes);
  }
  void Import(const void* plain, const Format& format, void* tensor) override {
    backend_->Import(plain, format, tensor);
  }
  void Export(const Format& format, const void* tensor, void* plain) override {
    backend_->Export(format, tensor, plain);
  }

 private:
  Backend* const backend_;
  const DnnlTag tag_;
  const bool only_last_;
};

void ExpectClose(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b,
                 const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_LE(RelativeError(a[i], b[i]), kTolerance) << what << " " << i;
  }
}

CaseResult ResultOf(Backend* backend, const OperatorCase& c, bool in_place = false) {
  absl::StatusOr<CaseResult> result = RunCase(backend, c, ValuesOf(c, 1), in_place);
  if (!result.ok()) {
    ADD_FAILURE() << result.status();
    return {};
  }
  return *std::move(result);
}

void ExpectAsReference(Backend* backend, const OperatorCase& c, bool in_place = false) {
  const std::unique_ptr<Backend> reference = MakeReferenceBackend();
  const CaseResult want = ResultOf(reference.get(), c);
  const CaseResult got = ResultOf(backend, c, in_place);
  ExpectClose(got.outputs, want.outputs, c.name + " output");
  ExpectClose(got.input_grads, want.input_grads, c.name + " input gradient");
  ExpectClose(got.param_grads, want.param_grads, c.name + " parameter gradient");
}

std::string NameOfCase(const testing::TestParamInfo<OperatorCase>& info) { return info.param.name; }

class EveryCase : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Cpu, EveryCase, testing::ValuesIn(OperatorCases()), NameOfCase);

TEST_P(EveryCase, IsAsTheReference) {
  for (const int threads : kThreadCounts) {
    const std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = threads});
    ExpectAsReference(cpu.get(), GetParam());
    ExpectAsReference(cpu.get(), GetParam(), true);
  }
}

TEST_P(EveryCase, HasTheSameBitsTwice) {
  for (const int threads : kThreadCounts) {
    const CaseResult a = ResultOf(MakeCpuBackend({.threads = threads}).get(), GetParam());
    const CaseResult b = ResultOf(MakeCpuBackend({.threads = threads}).get(), GetParam());
    EXPECT_EQ(a.outputs, b.outputs);
    EXPECT_EQ(a.input_grads, b.input_grads);
    EXPECT_EQ(a.param_grads, b.param_grads);
  }
}

class ImageCase : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Cpu, ImageCase, testing::ValuesIn(CasesOfImages()), NameOfCase);

TEST_P(ImageCase, WorksInOtherLayouts) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 1});
  for (const DnnlTag tag : {DnnlTag::aBcd16b, DnnlTag::acdb}) {
    for (const bool only_last : {false, true}) {
      SCOPED_TRACE(tag == DnnlTag::acdb ? "channels innermost" : "blocks of 16 channels");
      RelaidBackend relaid(cpu.get(), tag, only_last);
      ExpectAsReference(&relaid, GetParam());
    }
  }
}

// Statistics of many places far from zero, as a deep network's first layers have: summed one after
// the other in float32 they were off by 1e-5.
TEST(CpuBatchNorm, SumsOfManyPlacesAreExact) {
  const TensorSpec x = {.shape = {2, 16, 96, 96}};
  const TensorSpec channels = {.shape = {16}};
  const OperatorCase c = {.name = "batch_norm_many_places",
                          .op = BatchNorm{.relu = true},
                          .inputs = {x},
                          .params = {channels, channels, channels, channels},
                          .outputs = {x}};
  CaseValues values = ValuesOf(c, 1);
  for (float& v : values.inputs[0]) v += 10;
  const CaseResult want = *RunCase(MakeReferenceBackend().get(), c, values);
  const std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 1});
  for (const DnnlTag tag : {DnnlTag::abcd, DnnlTag::aBcd16b, DnnlTag::acdb}) {
    RelaidBackend relaid(cpu.get(), tag, false);
    const CaseResult got = *RunCase(&relaid, c, values);
    EXPECT_LE(RelativeError(got.outputs[0], want.outputs[0]), 1e-6);
    EXPECT_LE(RelativeError(got.input_grads[0], want.input_grads[0]), 1e-6);
    for (size_t i = 0; i < want.param_grads.size(); ++i) {
      EXPECT_LE(RelativeError(got.param_grads[i], want.param_grads[i]), 1e-6) << i;
    }
  }
}

TEST(CpuBackend, HasAName) { EXPECT_EQ(MakeCpuBackend({})->name(), "cpu"); }

TEST(CpuBackend, ImportsAndExports) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend({});
  const TensorSpec spec = {DataType::kFloat32, {2, 17, 3, 2}};
  const Format format =
      FormatOf(spec, DnnlDesc(spec.shape, dnnl::memory::data_type::f32, DnnlTag::aBcd16b));
  EXPECT_EQ(format.bytes, 2 * 32 * 3 * 2 * sizeof(float));
  EXPECT_FALSE(format.plain());
  std::vector<float> values(static_cast<size_t>(spec.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) + 0.5f;
  const std::shared_ptr<void> tensor = *cpu->Allocate(format.bytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.get()) % 64, 0u);
  cpu->Import(values.data(), format, tensor.get());
  EXPECT_TRUE(PaddingIsZero(cpu.get(), format, tensor.get()));
  std::vector<float> back(values.size());
  cpu->Export(format, tensor.get(), back.data());
  EXPECT_EQ(back, values);
}

}  // namespace
}  // namespace soapstone::compute
