// Operators in a row, which leave each other the layouts that they like: what a graph runs.
#include <memory>
#include <string>
#include <vector>

#include "compute/cpu/backend.h"
#include "compute/cpu/formats.h"
#include "compute/reference/backend.h"
#include "compute/testing/operator_cases.h"
#include "compute/testing/operator_chain.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

// Rounding grows from one operator to the next.
constexpr double kChainTolerance = 5e-5;

// ThreadSanitizer does not see how the OpenMP runtime orders its threads.
#ifdef __SANITIZE_THREAD__
constexpr int kChainThreads[] = {1};
#else
constexpr int kChainThreads[] = {1, 2};
#endif

TensorSpec Floats(std::vector<int64_t> shape) { return {DataType::kFloat32, std::move(shape)}; }

ChainLink ConvLink(size_t input, const TensorSpec& x, const Conv2d& op) {
  const Window& w = op.window;
  ChainLink link = {.op = op, .inputs = {input}};
  link.params = {Floats({op.channels, x.shape[1] / op.groups, w.height, w.width})};
  if (op.bias) link.params.push_back(Floats({op.channels}));
  link.output =
      Floats({x.shape[0], op.channels, w.out_height(x.shape[2]), w.out_width(x.shape[3])});
  return link;
}
ChainLink NormLink(size_t input, const TensorSpec& x, const BatchNorm& op) {
  return {op, {input}, std::vector<TensorSpec>(4, Floats({x.shape[1]})), x};
}
ChainLink PoolLink(size_t input, const TensorSpec& x, const Pool& op) {
  const Window& w = op.window;
  return {op,
          {input},
          {},
          Floats({x.shape[0], x.shape[1], w.out_height(x.shape[2]), w.out_width(x.shape[3])})};
}

struct ChainCase {
  TensorSpec input;
  std::vector<ChainLink> links;
};

// conv, norm, relu, pool, conv, conv with relu, sum of the two, concat, norm with relu, places'
// mean, linear; of `width` channels, so that 16 fills blocks and 20 does not.
ChainCase Everything(int64_t width) {
  ChainCase c = {.input = Floats({3, 3, 11, 13})};
  std::vector<ChainLink>& l = c.links;
  const auto out = [&](size_t i) { return l[i - 1].output; };
  // A bias before a normalisation has a gradient of 0, but for rounding.
  l.push_back(
      ConvLink(0, c.input, {.channels = width, .window = Window::Square(3, 1, 1), .bias = false}));
  l.push_back(NormLink(1, out(1), {}));
  l.push_back({Activation{ActivationKind::kRelu}, {2}, {}, out(2)});
  l.push_back(PoolLink(3, out(3), {.kind = PoolKind::kMax, .window = Window::Square(3, 2, 1)}));
  l.push_back(ConvLink(4, out(4), {.channels = width, .window = Window::Square(3, 1, 1)}));
  l.push_back(ConvLink(4, out(4), {.channels = width, .window = Window::Square(1), .relu = true}));
  l.push_back({Add{.relu = true}, {5, 6, 4}, {}, out(5)});
  TensorSpec joined = out(7);
  joined.shape[1] = 2 * width;
  l.push_back({Concat{1}, {7, 5}, {}, joined});
  l.push_back(NormLink(8, joined, {.relu = true}));
  l.push_back({Activation{ActivationKind::kSigmoid}, {9}, {}, joined});
  l.push_back({Multiply{}, {10, 9}, {}, joined});
  l.push_back({Reduce{ReduceKind::kMean, {2, 3}}, {11}, {}, Floats({3, 2 * width})});
  l.push_back({Linear{.outputs = 5}, {12}, {Floats({5, 2 * width}), Floats({5})}, Floats({3, 5})});
  return c;
}

// As AlexNet: convolution with relu, response norm, average pool, grouped convolution, sum with an
// input that is plain, flatten, linear with relu.
ChainCase Flattened(int64_t width) {
  ChainCase c = {.input = Floats({2, 4, 9, 9})};
  std::vector<ChainLink>& l = c.links;
  const auto out = [&](size_t i) { return l[i - 1].output; };
  l.push_back(
      ConvLink(0, c.input, {.channels = width, .window = Window::Square(3, 2, 1), .relu = true}));
  l.push_back({LocalResponseNorm{.alpha = 0.5}, {1}, {}, out(1)});
  l.push_back(PoolLink(
      2, out(2),
      {.kind = PoolKind::kAverage, .window = Window::Square(2, 1), .count_padding = false}));
  l.push_back(ConvLink(3, out(3),
                       {.channels = 4, .window = Window::Square(1), .groups = 2, .bias = false}));
  l.push_back(PoolLink(0, c.input, {.kind = PoolKind::kMax, .window = Window::Square(3, 2)}));
  l.push_back({Add{}, {5, 4}, {}, out(4)});
  l.push_back({Reshape{{64}}, {6}, {}, Floats({2, 64})});
  l.push_back(
      {Linear{.outputs = 7, .relu = true}, {7}, {Floats({7, 64}), Floats({7})}, Floats({2, 7})});
  return c;
}

std::unique_ptr<OperatorChain> Stepped(Backend* backend, const ChainCase& c,
                                       bool in_place = false) {
  absl::StatusOr<std::unique_ptr<OperatorChain>> chain =
      OperatorChain::Make(backend, c.input, c.links, in_place);
  if (!chain.ok()) {
    ADD_FAILURE() << chain.status();
    return nullptr;
  }
  (*chain)->Step();
  return *std::move(chain);
}

void ExpectSameParamGradients(const OperatorChain& a, const OperatorChain& b, double tolerance) {
  for (size_t l = 0; l < a.size(); ++l) {
    const auto& ours = a.ParamGradients(l);
    const auto& theirs = b.ParamGradients(l);
    for (size_t p = 0; p < ours.size(); ++p) {
      EXPECT_LE(RelativeError(ours[p], theirs[p]), tolerance) << "link " << l << " parameter " << p;
    }
  }
}

void ExpectSame(const OperatorChain& a, const OperatorChain& b, double tolerance) {
  for (size_t i = 0; i <= a.size(); ++i) {
    EXPECT_LE(RelativeError(a.Tensor(i), b.Tensor(i)), tolerance) << "tensor " << i;
    EXPECT_LE(RelativeError(a.Gradient(i), b.Gradient(i)), tolerance) << "its gradient, " << i;
  }
  ExpectSameParamGradients(a, b, tolerance);
}

class Chain : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Widths, Chain, testing::Values(16, 20, 32));

TEST_P(Chain, IsAsTheReference) {
  const std::unique_ptr<Backend> reference = MakeReferenceBackend();
  for (const ChainCase& c : {Everything(GetParam()), Flattened(GetParam())}) {
    const std::unique_ptr<OperatorChain> want = Stepped(reference.get(), c);
    for (const int threads : kChainThreads) {
      const std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = threads});
      const std::unique_ptr<OperatorChain> got = Stepped(cpu.get(), c);
      ASSERT_NE(got, nullptr);
      ExpectSame(*got, *want, kChainTolerance);
    }
  }
}

TEST_P(Chain, HasTheSameBitsTwice) {
  for (const int threads : kChainThreads) {
    const std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = threads});
    const ChainCase c = Everything(GetParam());
    const std::unique_ptr<OperatorChain> a = Stepped(cpu.get(), c);
    const std::unique_ptr<OperatorChain> b = Stepped(cpu.get(), c);
    ASSERT_NE(a, nullptr);
    ExpectSame(*a, *b, 0);
    a->Step();  // the same kernels again
    ExpectSame(*a, *b, 0);
  }
}

TEST_P(Chain, GradientsMayTakeEachOthersPlaces) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend({});
  for (const ChainCase& c : {Everything(GetParam()), Flattened(GetParam())}) {
    const std::unique_ptr<OperatorChain> apart = Stepped(cpu.get(), c);
    const std::unique_ptr<OperatorChain> in_place = Stepped(cpu.get(), c, true);
    ASSERT_NE(in_place, nullptr);
    ExpectSameParamGradients(*in_place, *apart, 0);
    EXPECT_EQ(in_place->Gradient(0), apart->Gradient(0));
  }
}

// Otherwise everything above would hold of plain tensors alone.
TEST(ChainFormats, BlocksAreKeptFromConvolutionToMean) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend({});
  const std::unique_ptr<OperatorChain> chain = Stepped(cpu.get(), Everything(16));
  ASSERT_NE(chain, nullptr);
  if (chain->format(1).plain()) GTEST_SKIP() << "oneDNN takes no blocks on this machine";
  for (size_t i = 1; i <= 11; ++i) {
    EXPECT_FALSE(chain->format(i).plain()) << i;
    EXPECT_EQ(DescOf(chain->format(i)).data.format_desc.blocking.inner_nblks,
              DescOf(chain->format(1)).data.format_desc.blocking.inner_nblks)
        << i;
  }
  EXPECT_TRUE(chain->format(12).plain());
}

// Channels that do not fill their blocks come to lie next to others' in a plain tensor.
TEST(ChainFormats, ConcatKeepsNoPaddingBetweenChannels) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend({});
  const std::unique_ptr<OperatorChain> chain = Stepped(cpu.get(), Everything(20));
  ASSERT_NE(chain, nullptr);
  const Format& joined = chain->format(8);
  EXPECT_EQ(joined.bytes, static_cast<size_t>(joined.spec.bytes()));
}

}  // namespace
}  // namespace soapstone::compute
