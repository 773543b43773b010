#include "compute/cuda/device_queues.h"

#include <cmath>

#include "compute/cuda/device_context.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

// Of a queue that are not known to be past: several steps of a large model.
constexpr size_t kPointsMax = 4096;

// A point is a number within its queue, and the queue.
constexpr uint64_t PointOf(size_t queue, uint64_t number) { return number * kQueues + queue; }

cudaEvent_t RecordTimed(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  SOAP_DEVICE_OR_DIE(cudaEventCreateWithFlags(&event, cudaEventDefault));
  SOAP_DEVICE_OR_DIE(cudaEventRecord(event, stream));
  return event;
}

}  // namespace

absl::Status DeviceQueues::Open() {
  for (OfQueue& queue : queues_) {
    SOAP_DEVICE_OR_RETURN(cudaStreamCreateWithFlags(&queue.stream, cudaStreamNonBlocking));
  }
  return absl::OkStatus();
}

// Failures are of no use any more.
DeviceQueues::~DeviceQueues() {
  for (OfQueue& queue : queues_) {
    if (queue.stream == nullptr) continue;
    (void)cudaStreamSynchronize(queue.stream);
    for (cudaEvent_t event : queue.points) (void)cudaEventDestroy(event);
    for (const Named& named : queue.names) (void)cudaEventDestroy(named.begin);
    (void)cudaStreamDestroy(queue.stream);
  }
  for (cudaEvent_t event : free_events_) (void)cudaEventDestroy(event);
  if (watched_since_ != nullptr) (void)cudaEventDestroy(watched_since_);
}

uint64_t DeviceQueues::Mark(Queue queue) {
  OfQueue& q = of(queue);
  if (q.points.size() == kPointsMax) {
    SOAP_DEVICE_OR_DIE(cudaEventSynchronize(q.points.front()));
    PassOne(&q);
  }
  cudaEvent_t event = nullptr;
  if (free_events_.empty()) {
    SOAP_DEVICE_OR_DIE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  } else {
    event = free_events_.back();
    free_events_.pop_back();
  }
  SOAP_DEVICE_OR_DIE(cudaEventRecord(event, q.stream));
  q.points.push_back(event);
  return PointOf(static_cast<size_t>(queue), q.passed + q.points.size() - 1);
}

cudaEvent_t DeviceQueues::EventOf(uint64_t point) const {
  const OfQueue& q = queues_[point % kQueues];
  const uint64_t number = point / kQueues;
  if (number < q.passed) return nullptr;
  CHECK_LT(number - q.passed, q.points.size()) << "point " << point << " was never marked";
  return q.points[number - q.passed];
}

void DeviceQueues::PassOne(OfQueue* queue) {
  free_events_.push_back(queue->points.front());
  queue->points.pop_front();
  ++queue->passed;
}

void DeviceQueues::Await(Queue queue, uint64_t point) {
  if (point % kQueues == static_cast<size_t>(queue)) return;  // they run in order
  const cudaEvent_t event = EventOf(point);
  if (event != nullptr) SOAP_DEVICE_OR_DIE(cudaStreamWaitEvent(of(queue).stream, event, 0));
}

void DeviceQueues::Wait(uint64_t point) {
  const cudaEvent_t event = EventOf(point);
  if (event == nullptr) return;
  SOAP_DEVICE_OR_DIE(cudaEventSynchronize(event));
  OfQueue& q = queues_[point % kQueues];
  while (q.passed <= point / kQueues) PassOne(&q);
}

bool DeviceQueues::Done(uint64_t point) {
  const cudaEvent_t event = EventOf(point);
  if (event == nullptr) return true;
  const cudaError_t state = cudaEventQuery(event);
  if (state == cudaErrorNotReady) return false;
  SOAP_DEVICE_OR_DIE(state);
  return true;
}

void DeviceQueues::Finish() {
  for (OfQueue& q : queues_) {
    SOAP_DEVICE_OR_DIE(cudaStreamSynchronize(q.stream));
    while (!q.points.empty()) PassOne(&q);
  }
}

void DeviceQueues::Watch() {
  CHECK(watched_since_ == nullptr) << "watched already";
  Finish();
  watched_since_ = RecordTimed(of(Queue::kCompute).stream);
}

void DeviceQueues::Name(Queue queue, std::string_view name) {
  if (watched_since_ == nullptr) return;
  OfQueue& q = of(queue);
  q.names.push_back({.name = std::string(name), .begin = RecordTimed(q.stream)});
}

std::vector<QueueSpan> DeviceQueues::Unwatch() {
  CHECK(watched_since_ != nullptr) << "not watched";
  for (size_t k = 0; k < kQueues; ++k) Name(static_cast<Queue>(k), "");
  Finish();
  const auto since = [&](cudaEvent_t event) {
    float ms = 0;
    SOAP_DEVICE_OR_DIE(cudaEventElapsedTime(&ms, watched_since_, event));
    return static_cast<int64_t>(std::llround(double{ms} * 1e6));
  };
  std::vector<QueueSpan> spans;
  for (size_t k = 0; k < kQueues; ++k) {
    std::vector<Named>& names = queues_[k].names;
    for (size_t i = 0; i + 1 < names.size(); ++i) {
      if (names[i].name.empty()) continue;
      spans.push_back({.queue = static_cast<Queue>(k),
                       .name = std::move(names[i].name),
                       .begin_ns = since(names[i].begin),
                       .end_ns = since(names[i + 1].begin)});
    }
    for (const Named& named : names) SOAP_DEVICE_OR_DIE(cudaEventDestroy(named.begin));
    names.clear();
  }
  SOAP_DEVICE_OR_DIE(cudaEventDestroy(watched_since_));
  watched_since_ = nullptr;
  return spans;
}

}  // namespace soapstone::compute
