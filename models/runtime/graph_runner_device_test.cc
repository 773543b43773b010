// Steps on a device: copies beside the compute and recorded segments change no bit. Built twice:
// for a device, where it is labelled gpu, and with the device emulated on the host.
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/random.h"
#include "compute/cuda/cuda_backend.h"
#include "compute/init.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/runtime/graph_runner.h"
#include "models/zoo/zoo.h"
#ifdef SOAPSTONE_CUDA_EMULATED
#include "compute/cuda/emulated/emulator.h"
#endif

namespace soapstone::models {
namespace {

using Gradients = std::vector<std::vector<float>>;  // by parameter

std::shared_ptr<compute::Backend> DeviceOrNull() {
  if (compute::CudaDeviceCount() == 0) {
    static const int said =
        std::fprintf(stderr, "SKIPPED: no CUDA device. Training steps have NOT been run on one.\n");
    (void)said;
    return nullptr;
  }
  auto made = compute::MakeCudaBackend({});
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *std::move(made) : nullptr;
}

#define SOAPSTONE_DEVICE_OR_SKIP(name)                           \
  const std::shared_ptr<compute::Backend> name = DeviceOrNull(); \
  if ((name) == nullptr) GTEST_SKIP() << "no CUDA device to run it on"

std::unique_ptr<GraphRunner> MakeReplica(const std::string& model, ReplicaOptions options) {
  options.seed = 7;
  const bool tokens = model.starts_with("rnnlm") || model.starts_with("transformer");
  const ModelInput input = {.steps = tokens ? 6 : 0};
  auto replica = *GraphRunner::Create(*BuildModel(model, input), std::move(options));
  for (uint32_t p = 0; p < replica->graph().params().size(); ++p) {
    compute::InitSlice(replica->graph().params()[p], 5, ParamId{p}, 0, replica->param(ParamId{p}));
  }
  return replica;
}

struct Samples {
  int64_t count = 0;
  std::vector<std::vector<float>> words;  // i32 as bits
  std::vector<const void*> fields;
};

Samples RandomSamples(const Graph& graph, int64_t count, uint64_t step) {
  Samples samples = {.count = count};
  for (size_t f = 0; f < graph.inputs().size(); ++f) {
    const Tensor& tensor = graph.tensor(graph.inputs()[f]);
    const CounterRandom random(step, RandomUse::kTest, f);
    const bool is_label = graph.inputs()[f] == graph.labels();
    const auto bound = static_cast<uint64_t>(is_label ? graph.classes() : 2);
    std::vector<float> words(static_cast<size_t>(count * tensor.elements()));
    for (size_t i = 0; i < words.size(); ++i) {
      const auto token = static_cast<int32_t>(random.Below(i, bound));
      words[i] = static_cast<float>(random.Normal(i));
      if (tensor.type == DataType::kInt32) std::memcpy(&words[i], &token, sizeof(token));
    }
    samples.words.push_back(std::move(words));
  }
  for (const std::vector<float>& words : samples.words) samples.fields.push_back(words.data());
  return samples;
}

struct StepResult {
  double loss = 0;
  Gradients gradients;
};

// Gradients in memory of the pool, as the executor's: asked for; each waited for at once or not.
std::vector<BufferPool::Block> AskForStep(GraphRunner* replica, BufferPool* pool, int64_t count,
                                          uint64_t step, bool at_once = false) {
  const Samples samples = RandomSamples(replica->graph(), count, step);
  CHECK(replica->Begin(count, samples.fields, {.step = step, .first_sample = 5 * step}).ok());
  const std::vector<Op>& ops = replica->graph().ops();
  for (size_t op = 0; op < ops.size(); ++op) replica->ForwardOp(op);
  std::vector<BufferPool::Block> blocks;
  for (const ParamSpec& param : replica->graph().params()) {
    blocks.push_back(pool->Take(param.elements() * sizeof(float)));
    for (float& x : blocks.back().floats()) x = std::nanf("");
  }
  for (size_t op = ops.size(); op-- > 0;) {
    std::vector<absl::Span<float>> to;
    for (ParamId p : ops[op].params) to.push_back(blocks[Index(p)].floats());
    replica->BackwardOp(op, to);
    if (at_once) replica->WaitForGradients(op);
  }
  return blocks;
}

Gradients ValuesOf(const std::vector<BufferPool::Block>& blocks) {
  Gradients gradients;
  for (const BufferPool::Block& block : blocks) {
    gradients.emplace_back(block.floats().begin(), block.floats().end());
  }
  return gradients;
}

// The loss is a device's: a host's is gone when the backward pass has run.
StepResult RunStep(GraphRunner* replica, BufferPool* pool, int64_t count, uint64_t step,
                   bool at_once = false) {
  const auto blocks = AskForStep(replica, pool, count, step, at_once);
  replica->WaitForGradients(0);
  return {.loss = replica->on_device() ? replica->loss_sum() : 0, .gradients = ValuesOf(blocks)};
}

void ExpectSameBits(const StepResult& a, const StepResult& b) {
  EXPECT_EQ(a.loss, b.loss);
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (size_t p = 0; p < a.gradients.size(); ++p) {
    EXPECT_EQ(std::memcmp(a.gradients[p].data(), b.gradients[p].data(),
                          a.gradients[p].size() * sizeof(float)),
              0)
        << "parameter " << p;
  }
}

double Norm(const std::vector<float>& values) {
  double sum = 0;
  for (float v : values) sum += double{v} * v;
  return std::sqrt(sum);
}

class CudaStepTest : public ::testing::TestWithParam<std::string> {};

// Parameters change between steps, so that a copy that comes too early or too late shows; so do the
// keys of dropout and the number of samples, twice to sizes that need more memory.
void ExpectRecordedIsSingle(const std::string& model, ReplicaOptions options) {
  options.record = true;
  auto recorded = MakeReplica(model, options);
  options.record = false;
  auto single = MakeReplica(model, options);
  recorded->CutStep({1, 2, 4});
  BufferPool pool = recorded->NewPool();
  BufferPool other_pool = single->NewPool();
  uint64_t step = 1;
  for (const int64_t samples : {2, 2, 2, 3, 2, 3}) {
    SCOPED_TRACE(step);
    ExpectSameBits(RunStep(recorded.get(), &pool, samples, step),
                   RunStep(single.get(), &other_pool, samples, step, true));
    for (GraphRunner* replica : {recorded.get(), single.get()}) {
      for (uint32_t p = 0; p < replica->graph().params().size(); ++p) {
        for (float& w : replica->param(ParamId{p})) w *= 1.01f;
      }
    }
    ++step;
  }
}

TEST_P(CudaStepTest, RecordedSegmentsHaveTheBitsOfSingleCalls) {
  SOAPSTONE_DEVICE_OR_SKIP(device);
  ExpectRecordedIsSingle(GetParam(), {.backend = device});
}

TEST_P(CudaStepTest, SoDoRecomputedOnes) {
  SOAPSTONE_DEVICE_OR_SKIP(device);
  ExpectRecordedIsSingle(GetParam(), {.backend = device, .recompute = true});
}

TEST_P(CudaStepTest, AgreesWithTheProcessor) {
  SOAPSTONE_DEVICE_OR_SKIP(device);
  auto on_device = MakeReplica(GetParam(), {.backend = device});
  auto on_host = MakeReplica(GetParam(), {});
  BufferPool pool = on_device->NewPool(), host_pool = on_host->NewPool();
  for (uint64_t step = 1; step <= 3; ++step) {
    const StepResult got = RunStep(on_device.get(), &pool, 3, step);
    const StepResult want = RunStep(on_host.get(), &host_pool, 3, step);
    for (size_t p = 0; p < want.gradients.size(); ++p) {
      std::vector<float> difference = got.gradients[p];
      for (size_t i = 0; i < difference.size(); ++i) difference[i] -= want.gradients[p][i];
      EXPECT_LE(Norm(difference), 1e-3 * Norm(want.gradients[p]) + 1e-5)
          << on_host->graph().params()[p].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CudaStepTest,
                         ::testing::Values("lenet5:tiny", "alexnet:tiny,dropout=0.3", "rnnlm:tiny",
                                           "transformer_lm:tiny,hidden=16,layers=1,heads=2"));

// The second step computes gradients while those of the first are copied, to other blocks.
TEST(CudaStepTest, AStepMayBeAskedForBeforeTheLastOnesGradientsHaveCome) {
  SOAPSTONE_DEVICE_OR_SKIP(device);
  auto replica = MakeReplica("lenet5:tiny", {.backend = device});
  auto other = MakeReplica("lenet5:tiny", {.backend = device});
  BufferPool pool = replica->NewPool(), other_pool = other->NewPool();
  for (uint64_t step = 1; step < 7; step += 2) {
    const auto first = AskForStep(replica.get(), &pool, 2, step);
    const auto second = AskForStep(replica.get(), &pool, 2, step + 1);
    (void)replica->correct();  // waits for the kernels, and not for the copies
    replica->WaitForGradients(0);
    EXPECT_EQ(ValuesOf(first), RunStep(other.get(), &other_pool, 2, step, true).gradients);
    EXPECT_EQ(ValuesOf(second), RunStep(other.get(), &other_pool, 2, step + 1, true).gradients);
  }
}

// A look at an operator in the middle of a segment, and at what evaluation asks for.
TEST(CudaStepTest, WhatIsLookedAtHasBeenComputed) {
  SOAPSTONE_DEVICE_OR_SKIP(device);
  auto replica = MakeReplica("lenet5:tiny", {.backend = device});
  replica->CutStep({3});
  const Samples samples = RandomSamples(replica->graph(), 2, 1);
  std::vector<std::vector<float>> outputs, logits;
  for (int run = 0; run < 4; ++run) {  // the last two have recordings
    ASSERT_TRUE(replica->Begin(2, samples.fields, {.training = false}).ok());
    for (size_t op = 0; op < replica->graph().ops().size(); ++op) {
      replica->ForwardOp(op);
      if (run % 2 == 1 && (op == 1 || op == 5)) outputs.push_back(replica->output());
    }
    EXPECT_GT(replica->loss_sum(), 0);
    logits.push_back(replica->logits());
  }
  EXPECT_THAT(logits, ::testing::Each(logits[0]));
  ASSERT_EQ(outputs.size(), 4u);
  EXPECT_EQ(outputs[0], outputs[2]);
  EXPECT_EQ(outputs[1], outputs[3]);
}

std::vector<compute::QueueSpan> WatchedStep(GraphRunner* replica, BufferPool* pool) {
  RunStep(replica, pool, 2, 1);
  RunStep(replica, pool, 2, 2);  // is recorded
  replica->Watch();
  RunStep(replica, pool, 2, 3);
  return replica->Unwatch();
}

const compute::QueueSpan& Find(const std::vector<compute::QueueSpan>& spans, compute::Queue queue,
                               const std::string& name) {
  for (const compute::QueueSpan& span : spans) {
    if (span.queue == queue && span.name == name) return span;
  }
  LOG(FATAL) << "no span " << name;
}

TEST(CudaStepTest, GradientsLeaveWhileEarlierSegmentsRunBackward) {
  SOAPSTONE_DEVICE_OR_SKIP(device);
  auto replica = MakeReplica("lenet5:tiny", {.backend = device});
  const std::vector<Op>& ops = replica->graph().ops();
  const auto last = static_cast<uint32_t>(ops.size() - 2);  // the last with parameters
  ASSERT_FALSE(ops[last].params.empty());
  replica->CutStep({1, last});
  BufferPool pool = replica->NewPool();
  const std::vector<compute::QueueSpan> spans = WatchedStep(replica.get(), &pool);
  const std::string parameter = replica->graph().param(ops[last].params[0]).name;
  const auto& computed = Find(spans, compute::Queue::kCompute,
                              ops.back().name + " .. " + ops[last].name + " backward");
  const auto& copied = Find(spans, compute::Queue::kFromDevice, "grad " + parameter);
  const auto& first = Find(spans, compute::Queue::kCompute, ops[0].name + " backward");
  EXPECT_GE(copied.begin_ns, computed.end_ns);
  EXPECT_LT(copied.begin_ns, first.end_ns);
  // The parameters of the last segment are copied beside the first ones' forward pass.
  const auto& sent = Find(spans, compute::Queue::kToDevice, parameter);
  const auto& used =
      Find(spans, compute::Queue::kCompute, ops[last].name + " .. " + ops.back().name + " forward");
  EXPECT_LE(sent.end_ns, used.begin_ns);
}

#ifdef SOAPSTONE_CUDA_EMULATED

TEST(CudaStepTest, EarlyCopiesChangeNothing) {
  compute::emulated::MakeCopiesEarly(true);
  for (const char* model : {"lenet5:tiny", "rnnlm:tiny"}) {
    ExpectRecordedIsSingle(model, {.backend = DeviceOrNull()});
  }
  compute::emulated::MakeCopiesEarly(false);
}

TEST(CudaStepTest, ADriverThatRecordsNothingIsServed) {
  compute::emulated::RefuseRecording(true);
  ExpectRecordedIsSingle("lenet5:tiny", {.backend = DeviceOrNull()});
  compute::emulated::RefuseRecording(false);
}

#endif

}  // namespace
}  // namespace soapstone::models
