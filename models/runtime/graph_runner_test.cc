#include "models/runtime/graph_runner.h"

#include <cmath>
#include <cstring>
#include <thread>

#include "base/random.h"
#include "compute/init.h"
#include "compute/reference/backend.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"

namespace soapstone::models {
namespace {

using Gradients = std::vector<std::vector<float>>;  // by parameter

// Convolutions, pools, linears.
Graph EveryOp() {
  using compute::Conv2d;
  using compute::Linear;
  using compute::Pool;
  using compute::PoolKind;
  using compute::Window;
  GraphBuilder b("every_op");
  TensorId x = b.Input("input", DataType::kFloat32, {2, 8, 8});
  x = b.Apply("conv1", Conv2d{.channels = 4, .window = Window::Square(3, 1, 1)}, {x});
  x = b.Apply("relu1", compute::Activation{}, {x});
  x = b.Apply("max", Pool{.window = Window::Square(2, 2)}, {x});
  x = b.Apply("conv2", Conv2d{.channels = 6, .window = Window::Square(3)}, {x});
  x = b.Apply("avg", Pool{.kind = PoolKind::kAverage, .window = Window::Square(2)}, {x});
  x = b.Flatten("flatten", x);
  x = b.Apply("fc1", Linear{.outputs = 12, .relu = true}, {x});
  b.Loss("loss", b.Apply("fc2", Linear{.outputs = 5}, {x}));
  return *b.Build();
}

std::unique_ptr<GraphRunner> MakeReplica(Graph graph, ReplicaOptions options = {}) {
  auto replica = std::move(*GraphRunner::Create(std::move(graph), std::move(options)));
  for (uint32_t p = 0; p < replica->graph().params().size(); ++p) {
    compute::InitSlice(replica->graph().params()[p], 5, ParamId{p}, 0, replica->param(ParamId{p}));
  }
  return replica;
}

struct Batch {
  std::vector<float> inputs;
  std::vector<int32_t> labels;
};

Batch RandomBatch(const Graph& graph, size_t n, uint64_t stream) {
  const CounterRandom random(9, RandomUse::kTest, stream);
  Batch batch;
  const size_t elements = n * static_cast<size_t>(graph.tensor(graph.input()).elements());
  for (size_t i = 0; i < elements; ++i) {
    batch.inputs.push_back(static_cast<float>(random.Normal(i)));
  }
  for (size_t i = 0; i < n; ++i) {
    batch.labels.push_back(static_cast<int32_t>(random.Below(elements + i, graph.classes())));
  }
  return batch;
}

double Loss(GraphRunner* replica, const Batch& batch) {
  replica->Begin(batch.inputs, batch.labels);
  for (size_t op = 0; op < replica->graph().ops().size(); ++op) replica->ForwardOp(op);
  return replica->loss_sum();
}

Gradients Step(GraphRunner* replica, const Batch& batch) {
  Loss(replica, batch);
  Gradients out;
  for (const ParamSpec& param : replica->graph().params()) {
    out.emplace_back(param.elements(), std::nanf(""));
  }
  for (size_t op = replica->graph().ops().size(); op-- > 0;) {
    std::vector<absl::Span<float>> to;
    for (ParamId p : replica->graph().ops()[op].params) {
      to.push_back(absl::MakeSpan(out[Index(p)]));
    }
    replica->BackwardOp(op, to);
  }
  return out;
}

void ExpectSameBits(const Gradients& a, const Gradients& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t p = 0; p < a.size(); ++p) {
    ASSERT_EQ(a[p].size(), b[p].size());
    EXPECT_EQ(std::memcmp(a[p].data(), b[p].data(), a[p].size() * sizeof(float)), 0)
        << "parameter " << p;
  }
}

// ∂L/∂w ≈ (L(w + h) − L(w − h)) / 2h for every element of every parameter. Where the slopes on
// the two sides differ, w is at a kink of a ReLU or a maximum, and there is nothing to compare.
TEST(GraphRunner, GradientsAgreeWithFiniteDifferences) {
  constexpr float kStep = 2e-3f;
  auto replica = MakeReplica(EveryOp());
  const Batch batch = RandomBatch(replica->graph(), 4, 1);
  const Gradients gradients = Step(replica.get(), batch);
  const double middle = Loss(replica.get(), batch);
  int compared = 0;
  int kinks = 0;
  for (uint32_t p = 0; p < gradients.size(); ++p) {
    for (size_t i = 0; i < gradients[p].size(); ++i) {
      float& w = replica->param(ParamId{p})[i];
      const float kept = w;
      w = kept + kStep;
      const double right = (Loss(replica.get(), batch) - middle) / kStep;
      w = kept - kStep;
      const double left = (middle - Loss(replica.get(), batch)) / kStep;
      w = kept;
      if (std::abs(right - left) > 0.01 * (1 + std::abs(right))) {
        ++kinks;
        continue;
      }
      ++compared;
      ASSERT_NEAR(gradients[p][i], (right + left) / 2, 6e-3 * (1 + std::abs(right)))
          << replica->graph().params()[p].name << " element " << i;
    }
  }
  EXPECT_LT(kinks, compared / 20) << compared;
}

TEST(GraphRunner, TwoReplicasGiveTheSameBits) {
  auto a = MakeReplica(EveryOp());
  auto b = MakeReplica(EveryOp());
  const Batch batch = RandomBatch(a->graph(), 7, 3);
  ExpectSameBits(Step(a.get(), batch), Step(b.get(), batch));
  EXPECT_EQ(a->loss_sum(), b->loss_sum());
}

TEST(GraphRunner, AnotherThreadGivesTheSameBits) {
  auto a = MakeReplica(EveryOp());
  const Batch batch = RandomBatch(a->graph(), 16, 3);
  const Gradients here = Step(a.get(), batch);
  Gradients there;
  std::thread([&] { there = Step(MakeReplica(EveryOp()).get(), batch); }).join();
  ExpectSameBits(here, there);
}

TEST(GraphRunner, OtherBatchesInBetweenLeaveNoTrace) {
  auto replica = MakeReplica(EveryOp());
  const Batch batch = RandomBatch(replica->graph(), 5, 4);
  const Gradients before = Step(replica.get(), batch);
  Step(replica.get(), RandomBatch(replica->graph(), 9, 5));
  Step(replica.get(), RandomBatch(replica->graph(), 1, 6));
  ExpectSameBits(before, Step(replica.get(), batch));
}

TEST(GraphRunner, ManyBatchSizesAreServed) {
  auto replica = MakeReplica(EveryOp());
  const Batch batch = RandomBatch(replica->graph(), 2, 7);
  const double first = Loss(replica.get(), batch);
  for (size_t n = 1; n <= 40; ++n) Loss(replica.get(), RandomBatch(replica->graph(), n, n));
  EXPECT_EQ(Loss(replica.get(), batch), first);
}

TEST(GraphRunner, GradientsAreSumsOverSamples) {
  auto replica = MakeReplica(EveryOp());
  const Batch one = RandomBatch(replica->graph(), 1, 8);
  Batch three;
  for (int i = 0; i < 3; ++i) {
    three.inputs.insert(three.inputs.end(), one.inputs.begin(), one.inputs.end());
    three.labels.push_back(one.labels[0]);
  }
  const Gradients single = Step(replica.get(), one);
  const Gradients sum = Step(replica.get(), three);
  for (size_t p = 0; p < sum.size(); ++p) {
    for (size_t i = 0; i < sum[p].size(); ++i) {
      ASSERT_NEAR(sum[p][i], 3 * single[p][i], 1e-4 * (1 + std::abs(sum[p][i])));
    }
  }
}

// Of the input of a convolution, by differences; and of what is computed again with the same bits.
TEST(GraphRunner, GivesTheGradientOfAnInput) {
  constexpr float kStep = 2e-3f;
  const TensorId input = EveryOp().input();
  auto replica = MakeReplica(EveryOp(), {.input_gradients = {input}});
  Batch batch = RandomBatch(replica->graph(), 2, 1);
  const Gradients gradients = Step(replica.get(), batch);
  const std::vector<float> of_input = replica->InputGradient(input);
  ASSERT_EQ(of_input.size(), batch.inputs.size());
  auto again = MakeReplica(EveryOp(), {.recompute = true, .input_gradients = {input}});
  ExpectSameBits(Step(again.get(), batch), gradients);
  EXPECT_EQ(again->InputGradient(input), of_input);
  ExpectSameBits(Step(MakeReplica(EveryOp()).get(), batch), gradients);
  const double middle = Loss(replica.get(), batch);
  int compared = 0;
  for (size_t i = 0; i < of_input.size(); ++i) {
    const float kept = batch.inputs[i];
    batch.inputs[i] = kept + kStep;
    const double right = (Loss(replica.get(), batch) - middle) / kStep;
    batch.inputs[i] = kept - kStep;
    const double left = (middle - Loss(replica.get(), batch)) / kStep;
    batch.inputs[i] = kept;
    if (std::abs(right - left) > 0.01 * (1 + std::abs(right))) continue;  // a kink
    ++compared;
    EXPECT_NEAR(of_input[i], (right + left) / 2, 6e-3 * (1 + std::abs(right))) << i;
  }
  EXPECT_GT(compared, 200);
}

TEST(GraphRunner, CountsWhatItGetsRight) {
  auto replica = MakeReplica(EveryOp());
  Batch batch = RandomBatch(replica->graph(), 6, 9);
  Loss(replica.get(), batch);
  for (size_t n = 0; n < 6; ++n) {
    const std::vector<float> logits = replica->logits();
    const absl::Span<const float> row = absl::MakeConstSpan(logits).subspan(n * 5, 5);
    batch.labels[n] = static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
  }
  Loss(replica.get(), batch);
  EXPECT_EQ(replica->correct(), 6);
}

TEST(ReplicaDeathTest, OperatorsOutOfOrderDie) {
  auto replica = MakeReplica(EveryOp());
  const Batch batch = RandomBatch(replica->graph(), 1, 1);
  replica->Begin(batch.inputs, batch.labels);
  EXPECT_DEATH(replica->ForwardOp(1), "in order");
  EXPECT_DEATH(replica->BackwardOp(0, {}), "in reverse");
}

// Two sets of parameters that take turns on one replica have the bits of two replicas.
TEST(GraphRunner, ParametersMayTakeTurns) {
  auto alone = MakeReplica(EveryOp());
  auto shared = MakeReplica(EveryOp());
  const Batch batch = RandomBatch(alone->graph(), 4, 1);
  const Gradients first = Step(alone.get(), batch);
  GraphRunner::Parameters other = shared->NewParameters();  // zero
  shared->SwapParameters(&other);
  const Gradients zero = Step(shared.get(), batch);
  shared->SwapParameters(&other);
  ExpectSameBits(Step(shared.get(), batch), first);
  EXPECT_NE(zero, first);
}

// Samples for any graph of the zoo: normal values, tokens and labels in their range.
struct ZooBatch {
  int64_t samples = 0;
  std::vector<std::vector<float>> words;  // i32 as bits
  std::vector<const void*> fields;
};

ZooBatch RandomFields(const Graph& graph, int64_t samples) {
  ZooBatch batch = {.samples = samples};
  for (size_t f = 0; f < graph.inputs().size(); ++f) {
    const Tensor& tensor = graph.tensor(graph.inputs()[f]);
    const CounterRandom random(3, RandomUse::kTest, f);
    const bool is_label = graph.inputs()[f] == graph.labels();
    const auto bound = static_cast<uint64_t>(is_label ? graph.classes() : 2);  // segments too
    std::vector<float> words(static_cast<size_t>(samples * tensor.elements()));
    for (size_t i = 0; i < words.size(); ++i) {
      const auto token = static_cast<int32_t>(random.Below(i, bound));
      words[i] = static_cast<float>(random.Normal(i));
      if (tensor.type == DataType::kInt32) std::memcpy(&words[i], &token, sizeof(token));
    }
    batch.words.push_back(std::move(words));
  }
  for (const std::vector<float>& words : batch.words) batch.fields.push_back(words.data());
  return batch;
}

struct ZooStep {
  double loss = 0;
  Gradients gradients;
};

ZooStep RunZoo(GraphRunner* replica, const ZooBatch& batch) {
  CHECK(replica->Begin(batch.samples, batch.fields, {.step = 3, .first_sample = 5}).ok());
  const std::vector<Op>& ops = replica->graph().ops();
  for (size_t op = 0; op < ops.size(); ++op) replica->ForwardOp(op);
  ZooStep step = {.loss = replica->loss_sum()};
  for (const ParamSpec& param : replica->graph().params()) {
    step.gradients.emplace_back(param.elements(), std::nanf(""));
  }
  for (size_t op = ops.size(); op-- > 0;) {
    std::vector<absl::Span<float>> to;
    for (ParamId p : ops[op].params) to.push_back(absl::MakeSpan(step.gradients[Index(p)]));
    replica->BackwardOp(op, to);
  }
  return step;
}

double RelativeError(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double size = 1e-20;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

class TinyZoo : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<GraphRunner> Make(ReplicaOptions options = {}) {
    options.seed = 7;
    const std::string model =
        GetParam() + (GetParam() == "alexnet" ? ":tiny,dropout=0.3" : ":tiny");
    // Inception's last images are 1×1 otherwise, and a batch norm's variance that of 3 numbers.
    const bool large = GetParam() == "inception_v3";
    const ModelInput input = {.image =
                                  large ? std::vector<int64_t>{1, 56, 56} : std::vector<int64_t>{}};
    return MakeReplica(*BuildModel(model, input), std::move(options));
  }
};

// Same graph, parameters and samples, on plain loops in double. (Kernels are held to 1e-5 one by
// one. In a deep model a value next to a ReLU's zero may fall to either side, which changes the
// gradient of all that lies before it by as much as one element counts.)
TEST_P(TinyZoo, AgreesWithTheReferenceKernels) {
  auto fast = Make();
  auto plain = Make({.backend = compute::MakeReferenceBackend()});
  const double tolerance = GetParam() == "inception_v3" ? 0.2 : 1e-3;
  const ZooBatch batch = RandomFields(fast->graph(), 3);
  const ZooStep got = RunZoo(fast.get(), batch);
  const ZooStep want = RunZoo(plain.get(), batch);
  EXPECT_NEAR(got.loss, want.loss, 1e-4 * want.loss);
  for (size_t p = 0; p < want.gradients.size(); ++p) {
    double norm = 0;
    for (float g : want.gradients[p]) norm += g * g;
    if (norm < 1e-12) continue;  // biases before a normalisation: rounding alone
    EXPECT_LE(RelativeError(got.gradients[p], want.gradients[p]), tolerance)
        << fast->graph().params()[p].name;
  }
}

// What is computed again has the bits of what was kept, and takes less memory.
TEST_P(TinyZoo, RecomputationChangesNoBit) {
  auto keep = Make();
  auto again = Make({.recompute = true});
  const ZooBatch batch = RandomFields(keep->graph(), 4);
  const ZooStep want = RunZoo(keep.get(), batch);
  const ZooStep got = RunZoo(again.get(), batch);
  EXPECT_EQ(got.loss, want.loss);
  ExpectSameBits(got.gradients, want.gradients);
  EXPECT_LE(again->Plan(4)->bytes, keep->Plan(4)->bytes);
}

INSTANTIATE_TEST_SUITE_P(Models, TinyZoo, ::testing::ValuesIn(ModelNames()));

}  // namespace
}  // namespace soapstone::models
