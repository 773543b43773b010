#include "models/replica.h"

#include <cmath>
#include <cstring>
#include <thread>

#include "base/random.h"
#include "compute/init.h"
#include "compute/loss.h"
#include "compute/reference.h"
#include "gtest/gtest.h"

namespace soapstone::models {
namespace {

using Gradients = std::vector<std::vector<float>>;  // by parameter

// Every kind of operator.
Graph EveryOp() {
  GraphBuilder b("every_op", {2, 8, 8});
  TensorId x = b.Relu("relu1", b.Conv2d("conv1", b.input(), 4, {.size = 3, .padding = 1}));
  x = b.MaxPool("max", x, {.size = 2, .stride = 2});
  x = b.Conv2d("conv2", x, 6, {.size = 3});
  x = b.Flatten("flatten", b.AvgPool("avg", x, {.size = 2, .stride = 1}));
  x = b.Relu("relu2", b.Linear("fc1", x, 12));
  b.SoftmaxCrossEntropy("loss", b.Linear("fc2", x, 5));
  return *b.Build();
}

std::unique_ptr<Replica> MakeReplica(Graph graph) {
  auto replica = std::move(*Replica::Create(std::move(graph)));
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

double Loss(Replica* replica, const Batch& batch) {
  replica->Begin(batch.inputs, batch.labels);
  for (size_t op = 0; op < replica->graph().ops().size(); ++op) replica->ForwardOp(op);
  return replica->loss_sum();
}

Gradients Step(Replica* replica, const Batch& batch) {
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
TEST(Replica, GradientsAgreeWithFiniteDifferences) {
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

// The same graph on the reference kernels.
double ReferenceLoss(Replica* replica, const Batch& batch) {
  const Graph& graph = replica->graph();
  const auto n = static_cast<int64_t>(batch.labels.size());
  std::vector<float> x = batch.inputs;
  for (const Op& op : graph.ops()) {
    const std::vector<int64_t>& in = graph.tensor(op.inputs[0]).shape;
    std::unique_ptr<compute::Kernel> kernel;
    if (op.kind == OpKind::kFlatten) continue;
    if (op.kind == OpKind::kSoftmaxCrossEntropy) {
      return compute::SoftmaxCrossEntropy(x, batch.labels, {}).loss;
    }
    const int64_t outputs = graph.tensor(op.output).shape[0];
    const Window& w = op.window;
    if (op.kind == OpKind::kLinear) {
      kernel = compute::MakeReferenceLinear({n, in[0], outputs});
    } else if (op.kind == OpKind::kConv2d) {
      kernel = compute::MakeReferenceConv2d(
          {n, in[0], in[1], in[2], outputs, w.size, w.stride, w.padding});
    } else if (op.kind == OpKind::kRelu) {
      kernel = compute::MakeReferenceRelu(static_cast<int64_t>(x.size()));
    } else {
      const auto kind =
          op.kind == OpKind::kMaxPool ? compute::PoolKind::kMax : compute::PoolKind::kAverage;
      kernel = compute::MakeReferencePool({kind, n, in[0], in[1], in[2], w.size, w.stride});
    }
    std::vector<float> y(static_cast<size_t>(n * graph.tensor(op.output).elements()));
    compute::ForwardArgs args = {.input = x, .output = absl::MakeSpan(y)};
    if (!op.params.empty()) {
      args.weight = replica->param(op.params[0]);
      args.bias = replica->param(op.params[1]);
    }
    kernel->Forward(args);
    x = y;
  }
  return -1;
}

TEST(Replica, LossAgreesWithTheReferenceKernels) {
  auto replica = MakeReplica(EveryOp());
  const Batch batch = RandomBatch(replica->graph(), 6, 2);
  EXPECT_NEAR(Loss(replica.get(), batch), ReferenceLoss(replica.get(), batch), 1e-4);
}

TEST(Replica, TwoReplicasGiveTheSameBits) {
  auto a = MakeReplica(EveryOp());
  auto b = MakeReplica(EveryOp());
  const Batch batch = RandomBatch(a->graph(), 7, 3);
  ExpectSameBits(Step(a.get(), batch), Step(b.get(), batch));
  EXPECT_EQ(a->loss_sum(), b->loss_sum());
}

TEST(Replica, AnotherThreadGivesTheSameBits) {
  auto a = MakeReplica(EveryOp());
  const Batch batch = RandomBatch(a->graph(), 16, 3);
  const Gradients here = Step(a.get(), batch);
  Gradients there;
  std::thread([&] { there = Step(MakeReplica(EveryOp()).get(), batch); }).join();
  ExpectSameBits(here, there);
}

TEST(Replica, OtherBatchesInBetweenLeaveNoTrace) {
  auto replica = MakeReplica(EveryOp());
  const Batch batch = RandomBatch(replica->graph(), 5, 4);
  const Gradients before = Step(replica.get(), batch);
  Step(replica.get(), RandomBatch(replica->graph(), 9, 5));
  Step(replica.get(), RandomBatch(replica->graph(), 1, 6));
  ExpectSameBits(before, Step(replica.get(), batch));
}

TEST(Replica, ManyBatchSizesAreServed) {
  auto replica = MakeReplica(EveryOp());
  const Batch batch = RandomBatch(replica->graph(), 2, 7);
  const double first = Loss(replica.get(), batch);
  for (size_t n = 1; n <= 40; ++n) Loss(replica.get(), RandomBatch(replica->graph(), n, n));
  EXPECT_EQ(Loss(replica.get(), batch), first);
}

TEST(Replica, GradientsAreSumsOverSamples) {
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

TEST(Replica, CountsWhatItGetsRight) {
  auto replica = MakeReplica(EveryOp());
  Batch batch = RandomBatch(replica->graph(), 6, 9);
  Loss(replica.get(), batch);
  for (size_t n = 0; n < 6; ++n) {
    const absl::Span<const float> row = replica->logits().subspan(n * 5, 5);
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
TEST(Replica, ParametersMayTakeTurns) {
  auto alone = MakeReplica(EveryOp());
  auto shared = MakeReplica(EveryOp());
  const Batch batch = RandomBatch(alone->graph(), 4, 1);
  const Gradients first = Step(alone.get(), batch);
  Replica::Parameters other = shared->NewParameters();  // zero
  shared->SwapParameters(&other);
  const Gradients zero = Step(shared.get(), batch);
  shared->SwapParameters(&other);
  ExpectSameBits(Step(shared.get(), batch), first);
  EXPECT_NE(zero, first);
}

}  // namespace
}  // namespace soapstone::models
