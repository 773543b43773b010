// The backend against the reference, operator by operator. Built twice: for a device, where it is
// labelled gpu, and with the device emulated on the host.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compute/cuda/cuda_backend.h"
#include "compute/reference/backend.h"
#include "compute/testing/operator_cases.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

// Null where there is no device; then it is said on stderr once.
std::unique_ptr<Backend> DeviceOrNull(const CudaOptions& options) {
  if (CudaDeviceCount() == 0) {
    static const bool said = [] {
      std::fprintf(
          stderr,
          "SKIPPED: no CUDA device. The kernels of compute/cuda/ have NOT been run on one; "
          "run `ctest -L gpu` where there is one.\n");
      return true;
    }();
    (void)said;
    return nullptr;
  }
  auto made = MakeCudaBackend(options);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *std::move(made) : nullptr;
}

#define SOAPSTONE_DEVICE_OR_SKIP(name, options)                \
  const std::unique_ptr<Backend> name = DeviceOrNull(options); \
  if (name == nullptr) GTEST_SKIP() << "no CUDA device to run it on"

void ExpectNear(const std::vector<std::vector<float>>& got,
                const std::vector<std::vector<float>>& expected, double bound,
                const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(RelativeError(got[i], expected[i]), bound) << what << " " << i;
  }
}

void ExpectLikeReference(Backend* backend, const std::vector<OperatorCase>& cases, double bound,
                         bool in_place) {
  const std::unique_ptr<Backend> reference = MakeReferenceBackend();
  for (const OperatorCase& c : cases) {
    SCOPED_TRACE(c.name);
    const CaseValues values = ValuesOf(c, 1);
    const auto expected = RunCase(reference.get(), c, values);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const auto got = RunCase(backend, c, values, in_place);
    ASSERT_TRUE(got.ok()) << got.status();
    ExpectNear(got->outputs, expected->outputs, bound, "output");
    ExpectNear(got->input_grads, expected->input_grads, bound, "input gradient");
    ExpectNear(got->param_grads, expected->param_grads, bound, "parameter gradient");
  }
}

TensorSpec Reals(std::vector<int64_t> shape) { return {DataType::kFloat32, std::move(shape)}; }
TensorSpec Integers(std::vector<int64_t> shape) { return {DataType::kInt32, std::move(shape)}; }

// Larger than a block of threads, a part of a sum, a launch's list or a group of ids.
std::vector<OperatorCase> LargerLayers() {
  return {
      {"linear_many_rows",
       Linear{.outputs = 7, .relu = true},
       {Reals({400, 5})},
       {Reals({7, 5}), Reals({7})},
       {Reals({400, 7})}},
      {"conv2d_many_places",
       Conv2d{.channels = 2, .window = Window::Square(3, 1, 1)},
       {Reals({6, 2, 37, 40})},
       {Reals({2, 2, 3, 3}), Reals({2})},
       {Reals({6, 2, 37, 40})}},
      {"batch_norm_many_places",
       BatchNorm{.relu = true},
       {Reals({9, 3, 31, 33})},
       {Reals({3}), Reals({3}), Reals({3}), Reals({3})},
       {Reals({9, 3, 31, 33})}},
      {"layer_norm_long_rows",
       LayerNorm{},
       {Reals({300, 333})},
       {Reals({333}), Reals({333})},
       {Reals({300, 333})}},
      {"embedding_many_places",
       Embedding{.rows = 60, .dim = 150},
       {Integers({3, 700})},
       {Reals({60, 150})},
       {Reals({3, 700, 150})}},
      {"loss_many_classes",
       SoftmaxCrossEntropy{},
       {Reals({5, 3, 290}), Integers({5, 3})},
       {},
       {Reals({5}), Reals({5})}},
  };
}

std::vector<OperatorCase> LargerAttentionsAndSums() {
  return {
      {"attention_more_heads",
       MultiHeadAttention{.heads = 5, .causal = true},
       {Reals({2, 150, 20}), Reals({2, 150, 20}), Reals({2, 150, 20})},
       {},
       {Reals({2, 150, 20})}},
      {"attention_more_samples",
       MultiHeadAttention{.heads = 2},
       {Reals({4, 3, 6}), Reals({4, 140, 6}), Reals({4, 140, 6})},
       {},
       {Reals({4, 3, 6})}},
      {"additive_attention_long",
       AdditiveAttention{},
       {Reals({2, 3, 140}), Reals({2, 150, 140}), Reals({2, 150, 4})},
       {Reals({140})},
       {Reals({2, 3, 4})}},
      {"add_many",
       Add{.relu = true},
       std::vector<TensorSpec>(19, Reals({3, 11})),
       {},
       {Reals({3, 11})}},
      {"add_parameter_many_samples",
       AddParameter{},
       {Reals({500, 3})},
       {Reals({3})},
       {Reals({500, 3})}},
      {"reduce_many",
       Reduce{.kind = ReduceKind::kMean, .axes = {1, 3}},
       {Reals({2, 30, 5, 40})},
       {},
       {Reals({2, 5})}},
      {"lstm_many_rows",
       Lstm{.hidden = 9, .state = true},
       {Reals({40, 10, 4}), Reals({40, 9}), Reals({40, 9})},
       {Reals({36, 4}), Reals({36, 9}), Reals({36})},
       {Reals({40, 10, 9}), Reals({40, 9}), Reals({40, 9})}},
  };
}

std::vector<OperatorCase> LargerCases() {
  std::vector<OperatorCase> cases = LargerLayers();
  for (OperatorCase& more : LargerAttentionsAndSums()) cases.push_back(std::move(more));
  return cases;
}

// But for what sections alone have, which run on hosts.
std::vector<OperatorCase> DeviceCases() {
  std::vector<OperatorCase> cases = OperatorCases();
  cases.erase(std::remove_if(cases.begin(), cases.end(),
                             [](const OperatorCase& c) {
                               return std::holds_alternative<BatchMoments>(c.op) ||
                                      std::holds_alternative<NormalizeByMoments>(c.op);
                             }),
              cases.end());
  return cases;
}

TEST(CudaTest, TheCasesHaveEveryOperator) {
  std::vector<bool> found(std::variant_size_v<Operator>, false);
  for (const OperatorCase& c : OperatorCases()) found[c.op.index()] = true;
  EXPECT_THAT(found, ::testing::Each(true));
}

TEST(CudaTest, LargerOnesAreTheReferences) {
  SOAPSTONE_DEVICE_OR_SKIP(device, CudaOptions{});
  ExpectLikeReference(device.get(), LargerCases(), 5e-5, false);
}

TEST(CudaTest, EveryOperatorIsTheReferences) {
  SOAPSTONE_DEVICE_OR_SKIP(device, CudaOptions{});
  ExpectLikeReference(device.get(), DeviceCases(), 2e-5, false);
}

TEST(CudaTest, EveryOperatorIsTheReferencesInPlace) {
  SOAPSTONE_DEVICE_OR_SKIP(device, CudaOptions{});
  ExpectLikeReference(device.get(), DeviceCases(), 2e-5, true);
}

TEST(CudaTest, MeasuredAlgorithmsAndMicroBatchesChangeNothing) {
  SOAPSTONE_DEVICE_OR_SKIP(
      device, (CudaOptions{.workspace_bytes_max = 1 << 20, .measure_algorithms = true}));
  ExpectLikeReference(device.get(), DeviceCases(), 2e-5, false);
}

TEST(CudaTest, AWorkspaceOfAlmostNothingIsEnough) {
  SOAPSTONE_DEVICE_OR_SKIP(device,
                           (CudaOptions{.workspace_bytes_max = 1100, .measure_algorithms = true}));
  for (const OperatorCase& c : LargerCases()) {
    if (!std::holds_alternative<Conv2d>(c.op)) continue;
    const auto got = RunCase(device.get(), c, ValuesOf(c, 1));
    // A device may have no algorithm as frugal as that; then it says what to do.
    if (!got.ok()) {
      EXPECT_THAT(std::string(got.status().message()),
                  ::testing::HasSubstr("raise the workspace's limit"));
      continue;
    }
    const auto expected = RunCase(MakeReferenceBackend().get(), c, ValuesOf(c, 1));
    ExpectNear(got->outputs, expected->outputs, 2e-5, c.name);
    ExpectNear(got->param_grads, expected->param_grads, 2e-5, c.name);
    ExpectNear(got->input_grads, expected->input_grads, 2e-5, c.name);
  }
}

TEST(CudaTest, Tf32IsNearTheReference) {
  SOAPSTONE_DEVICE_OR_SKIP(device, CudaOptions{.precision = CudaPrecision::kTf32});
  ExpectLikeReference(device.get(), DeviceCases(), 5e-3, false);
}

TEST(CudaTest, Bf16IsNearTheReference) {
  SOAPSTONE_DEVICE_OR_SKIP(device, CudaOptions{.precision = CudaPrecision::kBf16});
  ExpectLikeReference(device.get(), DeviceCases(), 4e-2, false);
}

TEST(CudaTest, TheSameInputsGiveTheSameBits) {
  SOAPSTONE_DEVICE_OR_SKIP(device, CudaOptions{});
  SOAPSTONE_DEVICE_OR_SKIP(other, CudaOptions{});
  for (const OperatorCase& c : DeviceCases()) {
    const CaseValues values = ValuesOf(c, 2);
    const auto a = RunCase(device.get(), c, values);
    const auto b = RunCase(other.get(), c, values);
    ASSERT_TRUE(a.ok() && b.ok()) << c.name;
    EXPECT_EQ(a->outputs, b->outputs) << c.name;
    EXPECT_EQ(a->input_grads, b->input_grads) << c.name;
    EXPECT_EQ(a->param_grads, b->param_grads) << c.name;
  }
}

// ---- memory of the device, plain [n]

Format Plain(size_t n) { return PlainFormat({DataType::kFloat32, {static_cast<int64_t>(n)}}); }

std::shared_ptr<void> OnDevice(Backend* device, const std::vector<float>& values) {
  auto memory = device->Allocate(values.size() * sizeof(float));
  EXPECT_TRUE(memory.ok()) << memory.status();
  device->Import(values.data(), Plain(values.size()), memory->get());
  return *memory;
}

std::vector<float> FromDevice(Backend* device, const void* memory, size_t n) {
  std::vector<float> values(n);
  device->Export(Plain(n), memory, values.data());
  return values;
}

std::vector<float> Ramp(size_t n, float scale) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = scale * (static_cast<float>(i % 37) - 18.25f);
  return values;
}

TEST(CudaTest, OptimizersHaveTheBitsOfTheHost) {
  SOAPSTONE_DEVICE_OR_SKIP(device, CudaOptions{});
  constexpr size_t kN = 1000;
  for (const char* text :
       {"sgd:lr=0.1", "sgd:lr=0.1,decay=0.01", "momentum:lr=0.05,mu=0.9,decay=1e-4", "nesterov",
        "adagrad", "rmsprop", "adam", "adam:decay=0.1", "adamw:decay=0.1", "ftrl:l1=0.01,l2=0.1"}) {
    SCOPED_TRACE(text);
    const auto spec = ParseOptimizer(text);
    ASSERT_TRUE(spec.ok()) << spec.status();
    std::vector<float> host = Ramp(kN, 0.125f);
    SliceState state;
    const auto param = OnDevice(device.get(), host);
    const auto first = OnDevice(device.get(), std::vector<float>(kN, 0.0f));
    const auto second = OnDevice(device.get(), std::vector<float>(kN, 0.0f));
    for (int step = 1; step <= 3; ++step) {
      const std::vector<float> gradient = Ramp(kN, 0.01f * static_cast<float>(step));
      const Update update{.lr = spec->lr, .scale = 0.3, .fraction = 0.5};
      ApplyGradient(*spec, update, gradient, absl::MakeSpan(host), &state);
      const auto on_device = OnDevice(device.get(), gradient);
      DeviceApply(device.get(), *spec,
                  {.update = update,
                   .n = kN,
                   .steps = step,
                   .gradient = static_cast<const float*>(on_device.get()),
                   .param = static_cast<float*>(param.get()),
                   .first = static_cast<float*>(first.get()),
                   .second = static_cast<float*>(second.get())});
      device->Finish();
    }
    EXPECT_EQ(FromDevice(device.get(), param.get(), kN), host);
    const auto expect_moment = [&](const void* moment, const std::vector<float>& expected) {
      if (expected.empty()) return;  // this optimizer has none
      EXPECT_EQ(FromDevice(device.get(), moment, kN), expected);
    };
    expect_moment(first.get(), state.first);
    expect_moment(second.get(), state.second);
  }
}

TEST(CudaTest, SlicesAreFlattenedAndBack) {
  SOAPSTONE_DEVICE_OR_SKIP(device, CudaOptions{});
  std::vector<std::shared_ptr<void>> slices;
  std::vector<DeviceSlice> places;
  std::vector<float> all;
  for (size_t i = 0; i < 150; ++i) {  // more than one launch holds
    const std::vector<float> values = Ramp(1 + i % 7, static_cast<float>(i + 1));
    slices.push_back(OnDevice(device.get(), values));
    places.push_back(
        {static_cast<const float*>(slices.back().get()), static_cast<int64_t>(values.size())});
    all.insert(all.end(), values.begin(), values.end());
  }
  const auto flat = OnDevice(device.get(), std::vector<float>(all.size(), -1.0f));
  DeviceFlatten(device.get(), places, static_cast<float*>(flat.get()), true);
  EXPECT_EQ(FromDevice(device.get(), flat.get(), all.size()), all);

  for (float& v : all) v = 2 * v + 1;
  device->Import(all.data(), Plain(all.size()), flat.get());
  DeviceFlatten(device.get(), places, static_cast<float*>(flat.get()), false);
  std::vector<float> back;
  for (const DeviceSlice& place : places) {
    const auto one = FromDevice(device.get(), place.data, static_cast<size_t>(place.n));
    back.insert(back.end(), one.begin(), one.end());
  }
  EXPECT_EQ(back, all);
}

TEST(CudaTest, ExportsGoOnBesideTheCompute) {
  SOAPSTONE_DEVICE_OR_SKIP(device, CudaOptions{});
  constexpr size_t kN = 5000, kTransfers = 5000;  // more than are kept pending
  const auto source = OnDevice(device.get(), Ramp(kN, 1));
  const auto pinned = device->AllocatePinned(kN * sizeof(float));
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  std::memset(pinned->get(), 0, kN * sizeof(float));
  uint64_t last = 0;
  for (size_t i = 0; i < kTransfers; ++i) {
    const uint64_t number = device->ExportAsync(Plain(kN), source.get(), pinned->get(), 0);
    EXPECT_GT(number, last);
    last = number;
  }
  device->Wait(last);
  EXPECT_TRUE(device->Done(last));
  EXPECT_TRUE(device->Done(1));
  device->Wait(1);  // with the last
  const float* const got = static_cast<const float*>(pinned->get());
  EXPECT_EQ(std::vector<float>(got, got + kN), Ramp(kN, 1));
}

TEST(CudaTest, ARecordedStepRunsWithOtherDropoutKeys) {
  SOAPSTONE_DEVICE_OR_SKIP(device, CudaOptions{});
  constexpr size_t kN = 6 * 35;
  KernelRequest request{.op = Dropout{.rate = 0.4},
                        .name = "dropout",
                        .inputs = {PlainFormat({DataType::kFloat32, {6, 35}})},
                        .outputs = {{DataType::kFloat32, {6, 35}}},
                        .seed = 3,
                        .op_index = 4};
  auto kernel = device->Prepare(request);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const auto x = OnDevice(device.get(), std::vector<float>(kN, 1.0f));
  const auto y = OnDevice(device.get(), std::vector<float>(kN, -1.0f));
  const void* const in = x.get();
  void* const out = y.get();
  const auto forward = [&](uint64_t step, uint64_t first_sample) {
    (*kernel)->Forward(
        {.inputs = {&in, 1}, .outputs = {&out, 1}, .step = step, .first_sample = first_sample});
  };
  forward(9, 0);
  device->Import(std::vector<float>(kN, -1.0f).data(), Plain(kN), out);
  auto graph = device->Record(10, 100, [&] { forward(10, 100); });
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(FromDevice(device.get(), out, kN), std::vector<float>(kN, -1.0f));  // not run
  std::vector<std::vector<float>> masks;
  for (const auto& [step, first_sample] :
       std::vector<std::pair<uint64_t, uint64_t>>{{10, 100}, {11, 100}, {10, 106}}) {
    (*graph)->Run(step, first_sample);
    masks.push_back(FromDevice(device.get(), out, kN));
    forward(step, first_sample);
    EXPECT_EQ(FromDevice(device.get(), out, kN), masks.back());
  }
  EXPECT_NE(masks[0], masks[1]);
  EXPECT_NE(masks[0], masks[2]);
}

TEST(CudaTest, MemoryThatIsNotThereIsAnErrorThatSaysWhatToDo) {
  SOAPSTONE_DEVICE_OR_SKIP(device, CudaOptions{});
  const auto made = device->Allocate(size_t{1} << 50);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(made.status().message()), ::testing::HasSubstr("make the batch smaller"));
}

}  // namespace
}  // namespace soapstone::compute
