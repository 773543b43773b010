#include "compute/cuda/emulated/emulator.h"

#include <cuda_runtime_api.h>
#include <ucontext.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "glog/logging.h"

namespace soapstone::compute::emulated {
namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr int kThreadsMax = 1024;
constexpr size_t kDeviceBytes = size_t{1} << 40;

// One host thread at a time uses the emulator: tests do.
struct Fibers {
  std::vector<std::unique_ptr<char[]>> stacks;
  std::vector<ucontext_t> contexts;
  ucontext_t scheduler = {};
  std::vector<bool> ended;
  const std::function<void()>* body = nullptr;
  int now = 0;
};
Fibers& TheFibers() {
  static Fibers& fibers = *new Fibers;
  return fibers;
}

void FiberMain() {
  Fibers& f = TheFibers();
  (*f.body)();
  f.ended[static_cast<size_t>(f.now)] = true;
  swapcontext(&f.contexts[static_cast<size_t>(f.now)], &f.scheduler);
}

using Recording = std::vector<std::function<void()>>;
std::unique_ptr<Recording>& TheRecording() {
  static auto& recording = *new std::unique_ptr<Recording>;
  return recording;
}

}  // namespace

void Submit(std::function<void()> work) {
  if (TheRecording() != nullptr) {
    TheRecording()->push_back(std::move(work));
  } else {
    work();
  }
}

int ThreadNow() { return TheFibers().now; }

void BarrierNow() {
  Fibers& f = TheFibers();
  swapcontext(&f.contexts[static_cast<size_t>(f.now)], &f.scheduler);
}

void RunBlock(int threads, const std::function<void()>& body) {
  CHECK_LE(threads, kThreadsMax);
  Fibers& f = TheFibers();
  const size_t count = static_cast<size_t>(threads);
  while (f.stacks.size() < count) f.stacks.push_back(std::make_unique<char[]>(kStackBytes));
  f.contexts.resize(count);
  f.ended.assign(count, false);
  f.body = &body;
  for (size_t i = 0; i < count; ++i) {
    getcontext(&f.contexts[i]);
    f.contexts[i].uc_stack.ss_sp = f.stacks[i].get();
    f.contexts[i].uc_stack.ss_size = kStackBytes;
    f.contexts[i].uc_link = nullptr;
    makecontext(&f.contexts[i], FiberMain, 0);
  }
  for (size_t left = count; left > 0;) {
    size_t ended = 0;
    for (size_t i = 0; i < count; ++i) {
      if (f.ended[i]) continue;
      f.now = static_cast<int>(i);
      swapcontext(&f.scheduler, &f.contexts[i]);
      if (f.ended[i]) ++ended;
    }
    // All threads of a block meet at the same barriers: they end in the same turn.
    CHECK(ended == 0 || ended == left) << "some threads of a block ended before a barrier";
    left -= ended;
  }
}

}  // namespace soapstone::compute::emulated

using soapstone::compute::emulated::kDeviceBytes;
using soapstone::compute::emulated::Recording;
using soapstone::compute::emulated::Submit;
using soapstone::compute::emulated::TheRecording;

// The runtime's functions that the backend calls. Memory of the device is filled with NaN, so that
// reading what was not written shows.
extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** p, size_t bytes) {
  if (bytes > kDeviceBytes) return cudaErrorMemoryAllocation;
  *p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*p, 0xff, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = kDeviceBytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** p, size_t bytes) { return cudaMalloc(p, bytes); }
cudaError_t cudaFreeHost(void* p) { return cudaFree(p); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t /*stream*/) {
  Submit([=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t /*stream*/) {
  Submit([=] { std::memset(p, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t /*stream*/) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t /*stream*/, cudaEvent_t /*event*/,
                                unsigned /*flags*/) {
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t /*event*/) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t /*event*/, cudaStream_t /*stream*/) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t /*event*/) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t /*event*/) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t /*error*/) { return "emulated"; }
const char* cudaGetErrorName(cudaError_t /*error*/) { return "emulated"; }

cudaError_t cudaStreamBeginCapture(cudaStream_t /*stream*/, cudaStreamCaptureMode /*mode*/) {
  TheRecording() = std::make_unique<Recording>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t /*stream*/, cudaGraph_t* graph) {
  *graph = reinterpret_cast<cudaGraph_t>(TheRecording().release());
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  *exec = reinterpret_cast<cudaGraphExec_t>(new Recording(*reinterpret_cast<Recording*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t /*stream*/) {
  for (const auto& work : *reinterpret_cast<Recording*>(exec)) work();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Recording*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete reinterpret_cast<Recording*>(exec);
  return cudaSuccess;
}

}  // extern "C"
