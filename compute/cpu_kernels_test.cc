#include "compute/cpu_kernels.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "compute/reference.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

// One operator at one shape, made twice: fast, and as plain loops.
struct Case {
  std::string name;
  int64_t input, output, weight, bias;  // elements
  std::function<absl::StatusOr<std::unique_ptr<Kernel>>()> fast;
  std::function<std::unique_ptr<Kernel>()> reference;
};

Case Linear(const std::string& name, LinearShape s) {
  return {name,
          s.input_size(),
          s.output_size(),
          s.weight_size(),
          s.outputs,
          [s] { return MakeCpuLinear(s); },
          [s] { return MakeReferenceLinear(s); }};
}
Case Conv(const std::string& name, Conv2dShape s) {
  return {name,
          s.input_size(),
          s.output_size(),
          s.weight_size(),
          s.out_channels,
          [s] { return MakeCpuConv2d(s); },
          [s] { return MakeReferenceConv2d(s); }};
}
Case Pool(const std::string& name, PoolShape s) {
  return {name,
          s.input_size(),
          s.output_size(),
          0,
          0,
          [s] { return MakeCpuPool(s); },
          [s] { return MakeReferencePool(s); }};
}
Case Relu(const std::string& name, int64_t n) {
  return {name, n, n, 0, 0, [n] { return MakeCpuRelu(n); }, [n] { return MakeReferenceRelu(n); }};
}

std::vector<Case> Cases() {
  return {
      Linear("linear", {.samples = 7, .inputs = 33, .outputs = 10}),
      Linear("linear_one_sample", {.samples = 1, .inputs = 400, .outputs = 120}),
      Linear("linear_wide", {.samples = 64, .inputs = 128, .outputs = 84}),
      Conv("conv_padded", {.samples = 5,
                           .in_channels = 1,
                           .height = 8,
                           .width = 8,
                           .out_channels = 16,
                           .kernel = 3,
                           .padding = 1}),
      Conv("conv_deep", {.samples = 3,
                         .in_channels = 16,
                         .height = 4,
                         .width = 4,
                         .out_channels = 32,
                         .kernel = 3,
                         .padding = 1}),
      Conv("conv_5x5", {.samples = 2,
                        .in_channels = 6,
                        .height = 14,
                        .width = 14,
                        .out_channels = 16,
                        .kernel = 5}),
      Conv("conv_strided", {.samples = 2,
                            .in_channels = 3,
                            .height = 11,
                            .width = 9,
                            .out_channels = 5,
                            .kernel = 3,
                            .stride = 2,
                            .padding = 1}),
      Pool("max_pool",
           {.kind = PoolKind::kMax, .samples = 3, .channels = 6, .height = 8, .width = 6}),
      Pool("max_pool_odd",
           {.kind = PoolKind::kMax, .samples = 2, .channels = 3, .height = 7, .width = 5}),
      Pool("max_pool_overlapping", {.kind = PoolKind::kMax,
                                    .samples = 2,
                                    .channels = 3,
                                    .height = 9,
                                    .width = 9,
                                    .kernel = 3,
                                    .stride = 2}),
      Pool("average_pool",
           {.kind = PoolKind::kAverage, .samples = 3, .channels = 6, .height = 8, .width = 6}),
      Relu("relu", 1001),
  };
}

// `offset` floats of padding before the data: gradients are written into messages, at any
// 4-byte alignment.
struct Tensor {
  Tensor(size_t n, size_t offset) : memory(n + offset, std::nanf("")), offset(offset) {}
  absl::Span<float> span() { return absl::MakeSpan(memory).subspan(offset); }
  std::vector<float> memory;
  size_t offset;
};

struct Trial {
  Trial(const Case& c, size_t offset)
      : x(c.input, offset),
        w(c.weight, offset),
        b(c.bias, offset),
        y(c.output, offset),
        dy(c.output, offset),
        dx(c.input, offset),
        dw(c.weight, offset),
        db(c.bias, offset) {
    uint64_t stream = 0;
    for (Tensor* t : {&x, &w, &b, &dy}) {
      const CounterRandom random(1, RandomUse::kTest, stream++);
      for (size_t i = 0; i < t->span().size(); ++i) {
        t->span()[i] = static_cast<float>(random.Normal(i));
      }
    }
  }
  Trial(const Case& c, Kernel* kernel, size_t offset = 0) : Trial(c, offset) { Execute(kernel); }

  void Execute(Kernel* kernel) {
    kernel->Forward({.input = x.span(), .weight = w.span(), .bias = b.span(), .output = y.span()});
    kernel->Backward({.input = x.span(),
                      .output = y.span(),
                      .weight = w.span(),
                      .output_grad = dy.span(),
                      .input_grad = dx.span(),
                      .weight_grad = dw.span(),
                      .bias_grad = db.span()});
  }

  std::vector<absl::Span<float>> Results() { return {y.span(), dx.span(), dw.span(), db.span()}; }

  Tensor x, w, b, y, dy, dx, dw, db;
};

void ExpectSameBits(Trial* a, Trial* b) {
  const auto left = a->Results();
  const auto right = b->Results();
  for (size_t r = 0; r < left.size(); ++r) {
    if (left[r].empty()) continue;
    EXPECT_EQ(std::memcmp(left[r].data(), right[r].data(), left[r].size() * sizeof(float)), 0)
        << "result " << r;
  }
}

class CpuKernels : public ::testing::TestWithParam<Case> {};

TEST_P(CpuKernels, AgreeWithTheReference) {
  Trial fast(GetParam(), GetParam().fast().value().get());
  Trial reference(GetParam(), GetParam().reference().get());
  const auto got = fast.Results();
  const auto want = reference.Results();
  for (size_t r = 0; r < got.size(); ++r) {
    for (size_t i = 0; i < got[r].size(); ++i) {
      ASSERT_NEAR(got[r][i], want[r][i], 1e-5 * (10 + std::abs(want[r][i])))
          << "result " << r << " element " << i;
    }
  }
}

TEST_P(CpuKernels, RepeatTheirBits) {
  auto kernel = GetParam().fast().value();
  Trial first(GetParam(), kernel.get());
  Trial again(GetParam(), kernel.get());
  ExpectSameBits(&first, &again);
}

TEST_P(CpuKernels, GiveTheSameBitsWhenMadeOnAnotherThread) {
  Trial here(GetParam(), GetParam().fast().value().get());
  Trial there(GetParam(), size_t{0});
  std::thread([&] { there.Execute(GetParam().fast().value().get()); }).join();
  ExpectSameBits(&here, &there);
}

TEST_P(CpuKernels, GiveTheSameBitsAtAnyAlignment) {
  auto kernel = GetParam().fast().value();
  Trial aligned(GetParam(), kernel.get(), 0);
  for (size_t offset : {1, 3, 8}) {
    Trial shifted(GetParam(), kernel.get(), offset);
    ExpectSameBits(&aligned, &shifted);
  }
}

TEST_P(CpuKernels, LeaveOutTheInputGradientWhereNotWanted) {
  auto kernel = GetParam().fast().value();
  Trial run(GetParam(), kernel.get());
  kernel->Backward({.input = run.x.span(),
                    .output = run.y.span(),
                    .weight = run.w.span(),
                    .output_grad = run.dy.span(),
                    .input_grad = {},
                    .weight_grad = run.dw.span(),
                    .bias_grad = run.db.span()});
}

INSTANTIATE_TEST_SUITE_P(All, CpuKernels, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

TEST(CpuKernelsErrors, ImpossibleShapeIsAStatus) {
  const auto kernel = MakeCpuConv2d(
      {.samples = 1, .in_channels = 1, .height = 2, .width = 2, .out_channels = 1, .kernel = 5});
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace soapstone::compute
