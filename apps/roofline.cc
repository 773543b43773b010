#include "apps/roofline.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "apps/node_loop.h"
#include "base/ids.h"
#include "base/status_macros.h"
#include "base/vectors.h"

namespace soapstone::apps {
namespace {

constexpr Nanos kTriadFor = 200 * kMillisecond;
constexpr Nanos kProductsFor = 300 * kMillisecond;
constexpr int64_t kSide = 1024;
constexpr size_t kTriadBytes = size_t{64} << 20;  // an array; three of them

SOAPSTONE_EACH_VECTOR_WIDTH
void Triad(const float* b, const float* c, float s, float* a, size_t n) {
  SOAPSTONE_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) a[i] = b[i] + s * c[i];
}

// Each with arrays of its own, as threads of a kernel have.
double TriadAlone(size_t bytes) {
  const size_t n = bytes / sizeof(float);
  std::vector<float> a(n), b(n, 1.0f), c(n, 2.0f);
  const auto pass = [&] {
    Triad(b.data(), c.data(), 0.5f, a.data(), n);
    asm volatile("" : : "r"(a.data()) : "memory");  // the sum is wanted
  };
  pass();  // touches all pages
  const Nanos began = NodeLoop::Now();
  uint64_t passes = 0;
  Nanos took = 0;
  while (took < kTriadFor) {
    for (size_t i = 0; i < 1 + (size_t{1} << 20) / bytes; ++i, ++passes) pass();
    took = NodeLoop::Now() - began;
  }
  return 3 * static_cast<double>(bytes * passes) / static_cast<double>(took);
}

// Y = X W^T, all of kSide x kSide, in GFLOP/s: the fastest of the repeats.
absl::StatusOr<double> ProductRate(compute::Backend* backend) {
  const compute::TensorSpec square = {.shape = {kSide, kSide}};
  SOAP_ASSIGN_OR_RETURN(std::unique_ptr<compute::Kernel> kernel,
                        backend->Prepare({.op = compute::Linear{.outputs = kSide, .bias = false},
                                          .name = "roofline",
                                          .inputs = {compute::PlainFormat(square)},
                                          .params = {square},
                                          .outputs = {square},
                                          .training = false}));
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<void> x, backend->Allocate(square.bytes()));
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<void> w, backend->Allocate(square.bytes()));
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<void> y,
                        backend->Allocate(kernel->plan().outputs[0].bytes));
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<void> scratch,
                        backend->Allocate(kernel->plan().forward_scratch_bytes));
  std::fill_n(static_cast<float*>(x.get()), kSide * kSide, 0.5f);
  std::fill_n(static_cast<float*>(w.get()), kSide * kSide, 0.25f);
  const void* const inputs[] = {x.get()};
  const float* const params[] = {static_cast<const float*>(w.get())};
  void* const outputs[] = {y.get()};
  Nanos best = 0;
  for (const Nanos began = NodeLoop::Now(); NodeLoop::Now() - began < kProductsFor;) {
    const Nanos start = NodeLoop::Now();
    kernel->Forward(
        {.inputs = inputs, .params = params, .outputs = outputs, .scratch = scratch.get()});
    const Nanos took = std::max<Nanos>(NodeLoop::Now() - start, 1);
    best = best == 0 ? took : std::min(best, took);
  }
  return 2.0 * kSide * kSide * kSide / static_cast<double>(best);
}

}  // namespace

double TriadRate(size_t bytes, int threads) {
  if (threads <= 1) return TriadAlone(bytes);
  std::vector<double> rates(static_cast<size_t>(threads));
  std::vector<std::thread> running;
  for (double& rate : rates) {
    running.emplace_back([&rate, bytes, threads] { rate = TriadAlone(bytes / threads); });
  }
  for (std::thread& thread : running) thread.join();
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

absl::StatusOr<Roofline> MeasureRoofline(compute::Backend* backend, int threads) {
  Roofline roofline;
  SOAP_ASSIGN_OR_RETURN(roofline.gflops, ProductRate(backend));
  roofline.gbps = TriadRate(kTriadBytes, threads);
  return roofline;
}

}  // namespace soapstone::apps
