// The runtime's functions that the backend calls. Memory of the device is filled with NaN, so that
// reading what was not written shows.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "compute/cuda/emulated/emulator.h"
#include "glog/logging.h"

// A point of a stream's queue.
struct EmulatedPoint {
  cudaStream_t stream = nullptr;
  bool reached = false;
  double time_us = 0;
};

struct CUevent_st {
  std::shared_ptr<EmulatedPoint> point;  // of the last record
};

// One host thread at a time uses the emulator: tests do.
struct CUstream_st {
  struct Task {  // one of these
    std::function<void()> work;
    std::shared_ptr<EmulatedPoint> record, await;
    double cost_us = 0;
    double asked_us = 0;  // the host's time
  };
  std::deque<Task> tasks;
  double time_us = 0;
  std::vector<Task>* recording = nullptr;
};

struct CUgraph_st {
  std::vector<CUstream_st::Task> tasks;
};
struct CUgraphExec_st {
  std::vector<CUstream_st::Task> tasks;
};

namespace soapstone::compute::emulated {
namespace {

using Task = CUstream_st::Task;

constexpr size_t kDeviceBytes = size_t{1} << 40;
constexpr double kKernelUs = 2;
constexpr double kCopyUs = 1;           // and
constexpr double kCopyBytesUs = 10000;  // bytes of a copy in a microsecond: 10 GB/s

struct World {
  std::set<cudaStream_t> streams;
  std::map<const void*, size_t> pinned;
  double host_us = 0;
  bool copies_early = false;
  bool refuses_recording = false;
};
World& TheWorld() {
  static World& world = *new World;
  return world;
}

void RunUntil(const EmulatedPoint& point);

void RunOne(cudaStream_t stream) {
  CHECK(!stream->tasks.empty());
  const Task task = std::move(stream->tasks.front());
  stream->tasks.pop_front();
  stream->time_us = std::max(stream->time_us, task.asked_us);
  if (task.await != nullptr) {
    RunUntil(*task.await);
    stream->time_us = std::max(stream->time_us, task.await->time_us);
  }
  if (task.work) task.work();
  stream->time_us += task.cost_us;
  if (task.record != nullptr) {
    task.record->reached = true;
    task.record->time_us = stream->time_us;
  }
}

void RunUntil(const EmulatedPoint& point) {
  while (!point.reached) RunOne(point.stream);
}

void Drain(cudaStream_t stream) {
  while (!stream->tasks.empty()) RunOne(stream);
  TheWorld().host_us = std::max(TheWorld().host_us, stream->time_us);
}

void DrainAll() {
  for (cudaStream_t stream : TheWorld().streams) Drain(stream);
}

void Ask(cudaStream_t stream, Task task) {
  CHECK(TheWorld().streams.count(stream) == 1) << "not a stream";
  task.asked_us = TheWorld().host_us;
  stream->tasks.push_back(std::move(task));
}

bool IsPinned(const void* p) {
  const auto after = TheWorld().pinned.upper_bound(p);
  if (after == TheWorld().pinned.begin()) return false;
  const auto [begin, bytes] = *std::prev(after);
  return p < static_cast<const char*>(begin) + bytes;
}

// A driver takes a pageable source away at once, and fills a pageable target before it returns.
cudaError_t Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream) {
  const bool pageable = kind == cudaMemcpyHostToDevice   ? !IsPinned(from)
                        : kind == cudaMemcpyDeviceToHost ? !IsPinned(to)
                                                         : false;
  if (stream->recording != nullptr) {
    if (pageable) return cudaErrorStreamCaptureUnsupported;
    stream->recording->push_back({.work = [=] { std::memmove(to, from, bytes); }});
    return cudaSuccess;
  }
  Task task = {.cost_us = kCopyUs + static_cast<double>(bytes) / kCopyBytesUs};
  if (pageable && kind == cudaMemcpyHostToDevice) {
    const auto taken = std::make_shared<std::vector<char>>(static_cast<const char*>(from),
                                                           static_cast<const char*>(from) + bytes);
    task.work = [=] { std::memcpy(to, taken->data(), bytes); };
  } else {
    task.work = [=] { std::memmove(to, from, bytes); };
  }
  Ask(stream, std::move(task));
  if (pageable && kind == cudaMemcpyDeviceToHost) {
    Drain(stream);
  } else if (TheWorld().copies_early) {
    while (!stream->tasks.empty()) RunOne(stream);
  }
  return cudaSuccess;
}

}  // namespace

void Submit(cudaStream_t stream, std::function<void()> work) {
  Task task = {.work = std::move(work), .cost_us = kKernelUs};
  if (stream->recording != nullptr) {
    stream->recording->push_back(std::move(task));
  } else {
    Ask(stream, std::move(task));
  }
}

void MakeCopiesEarly(bool early) { TheWorld().copies_early = early; }
void RefuseRecording(bool refuse) { TheWorld().refuses_recording = refuse; }

}  // namespace soapstone::compute::emulated

namespace emulated = soapstone::compute::emulated;

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
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t /*error*/) { return "emulated"; }
const char* cudaGetErrorName(cudaError_t /*error*/) { return "emulated"; }

cudaError_t cudaMalloc(void** p, size_t bytes) {
  if (bytes > emulated::kDeviceBytes) return cudaErrorMemoryAllocation;
  *p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*p, 0xff, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = emulated::kDeviceBytes;
  return cudaSuccess;
}
// Both of these wait for the device.
cudaError_t cudaFree(void* p) {
  emulated::DrainAll();
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  emulated::TheWorld().pinned.erase(p);
  return cudaFree(p);
}
cudaError_t cudaMallocHost(void** p, size_t bytes) {
  const cudaError_t error = cudaMalloc(p, bytes);
  if (error == cudaSuccess) emulated::TheWorld().pinned[*p] = bytes;
  return error;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return emulated::Copy(to, from, bytes, kind, stream);
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
  emulated::Submit(stream, [=] { std::memset(p, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  *stream = new CUstream_st;
  emulated::TheWorld().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  emulated::DrainAll();
  emulated::TheWorld().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream->recording != nullptr) return cudaErrorStreamCaptureUnsupported;
  emulated::Drain(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  if (stream->recording != nullptr) return cudaErrorStreamCaptureIsolation;
  if (event->point != nullptr) emulated::Ask(stream, {.await = event->point});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (stream->recording != nullptr) return cudaErrorStreamCaptureUnsupported;
  event->point = std::make_shared<EmulatedPoint>(EmulatedPoint{.stream = stream});
  emulated::Ask(stream, {.record = event->point});
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->point == nullptr) return cudaSuccess;
  emulated::RunUntil(*event->point);
  double& host_us = emulated::TheWorld().host_us;
  host_us = std::max(host_us, event->point->time_us);
  return cudaSuccess;
}
// A device gets on while it is asked.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event->point == nullptr || event->point->reached) return cudaSuccess;
  emulated::RunOne(event->point->stream);
  return event->point->reached ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->point->reached || !end->point->reached) return cudaErrorNotReady;
  *ms = static_cast<float>((end->point->time_us - begin->point->time_us) / 1e3);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  if (emulated::TheWorld().refuses_recording) return cudaErrorStreamCaptureUnsupported;
  stream->recording = new std::vector<CUstream_st::Task>;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = new CUgraph_st{std::move(*stream->recording)};
  delete std::exchange(stream->recording, nullptr);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  *exec = new CUgraphExec_st{graph->tasks};
  return cudaSuccess;
}
// One task, so that nothing comes between: what a graph needs is there before it starts.
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  CUstream_st::Task all = {.work = [tasks = exec->tasks] {
    for (const CUstream_st::Task& task : tasks) task.work();
  }};
  for (const CUstream_st::Task& task : exec->tasks) all.cost_us += task.cost_us;
  emulated::Ask(stream, std::move(all));
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

}  // extern "C"
