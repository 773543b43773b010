#include "apps/profile/roofline.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "apps/loop/node_loop.h"
#include "base/ids.h"
#include "base/status_macros.h"
#include "base/vectors.h"

namespace soapstone::apps {
namespace {

constexpr Nanos kTriadFor = 200 * kMillisecond;
constexpr Nanos kKernelsFor = 300 * kMillisecond;
constexpr int64_t kSide = 1024;
constexpr int64_t kDeviceSide = 8192;
constexpr int64_t kDeviceRow = int64_t{1} << 26;
constexpr int kDeviceCalls = 4;                   // before it is waited for
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
  const auto pass = [&] { TriadPass(b, c, absl::MakeSpan(a)); };
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

// Calls one kernel of two inputs, of the same shape and all ones, or of one and a parameter, for a
// while; returns the least nanoseconds of a call. A device is asked for several, and waited for.
absl::StatusOr<double> LeastNsOf(compute::Backend* backend, const compute::KernelRequest& request,
                                 int calls) {
  SOAP_ASSIGN_OR_RETURN(std::unique_ptr<compute::Kernel> kernel, backend->Prepare(request));
  const compute::Format format = compute::PlainFormat(request.outputs[0]);
  const std::vector<float> ones(format.bytes / sizeof(float), 1.0f);
  std::vector<std::shared_ptr<void>> memory;
  for (int i = 0; i < 3; ++i) {
    const size_t bytes = std::max(format.bytes, kernel->plan().outputs[0].bytes);
    SOAP_ASSIGN_OR_RETURN(std::shared_ptr<void> tensor, backend->Allocate(bytes));
    backend->Import(ones.data(), format, tensor.get());
    memory.push_back(std::move(tensor));
  }
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<void> scratch,
                        backend->Allocate(kernel->plan().forward_scratch_bytes));
  const void* const inputs[] = {memory[0].get(), memory[1].get()};
  const float* const params[] = {static_cast<const float*>(memory[1].get())};
  void* const outputs[] = {memory[2].get()};
  const compute::ForwardArgs args = {.inputs = absl::MakeConstSpan(inputs, request.inputs.size()),
                                     .params = absl::MakeConstSpan(params, request.params.size()),
                                     .outputs = outputs,
                                     .scratch = scratch.get()};
  Nanos best = 0;
  for (const Nanos began = NodeLoop::Now(); NodeLoop::Now() - began < kKernelsFor;) {
    const Nanos start = NodeLoop::Now();
    for (int i = 0; i < calls; ++i) kernel->Forward(args);
    backend->Finish();
    const Nanos took = std::max<Nanos>(NodeLoop::Now() - start, 1);
    best = best == 0 ? took : std::min(best, took);
  }
  return static_cast<double>(best) / calls;
}

// Y = X W^T, all of side x side, in GFLOP/s.
absl::StatusOr<double> ProductRate(compute::Backend* backend, int64_t side, int calls) {
  const compute::TensorSpec square = {.shape = {side, side}};
  SOAP_ASSIGN_OR_RETURN(const double ns,
                        LeastNsOf(backend,
                                  {.op = compute::Linear{.outputs = side, .bias = false},
                                   .name = "roofline",
                                   .inputs = {compute::PlainFormat(square)},
                                   .params = {square},
                                   .outputs = {square},
                                   .training = false},
                                  calls));
  return 2.0 * static_cast<double>(side * side * side) / ns;
}

// c = a + b over arrays that no cache of a device holds, in GB/s: 12 bytes an element.
absl::StatusOr<double> DeviceMemoryRate(compute::Backend* backend) {
  const compute::TensorSpec row = {.shape = {kDeviceRow}};
  SOAP_ASSIGN_OR_RETURN(const double ns,
                        LeastNsOf(backend,
                                  {.op = compute::Add{},
                                   .name = "roofline",
                                   .inputs = {compute::PlainFormat(row), compute::PlainFormat(row)},
                                   .outputs = {row},
                                   .training = false},
                                  kDeviceCalls));
  return 12.0 * static_cast<double>(kDeviceRow) / ns;
}

}  // namespace

void TriadPass(absl::Span<const float> b, absl::Span<const float> c, absl::Span<float> a) {
  Triad(b.data(), c.data(), 0.5f, a.data(), a.size());
  asm volatile("" : : "r"(a.data()) : "memory");  // the sum is wanted
}

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
  if (backend->is_device()) {
    SOAP_ASSIGN_OR_RETURN(roofline.gflops, ProductRate(backend, kDeviceSide, kDeviceCalls));
    SOAP_ASSIGN_OR_RETURN(roofline.gbps, DeviceMemoryRate(backend));
    return roofline;
  }
  SOAP_ASSIGN_OR_RETURN(roofline.gflops, ProductRate(backend, kSide, 1));
  roofline.gbps = TriadRate(kTriadBytes, threads);
  return roofline;
}

}  // namespace soapstone::apps
