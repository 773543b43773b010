#include "apps/device_thread.h"

#include <glog/logging.h>

#include <utility>

#include "absl/time/clock.h"
#include "apps/node_loop.h"

namespace soapstone::apps {
namespace {

// The engine issues a step at a time, so these bound the instructions of one step.
constexpr size_t kCommandsMax = size_t{1} << 20;
constexpr size_t kEventsMax = size_t{1} << 20;
constexpr absl::Duration kDevicePutPatience = absl::Seconds(2);
constexpr absl::Duration kDeviceLookAgain = absl::Seconds(1);

}  // namespace

DeviceThread::DeviceThread(Runner runner, std::function<void()> wake)
    : runner_(std::move(runner)),
      wake_(std::move(wake)),
      commands_(kCommandsMax),
      events_(kEventsMax),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

DeviceThread::~DeviceThread() {
  thread_.request_stop();
  Hurry();
  commands_.Close();
  events_.Close();
}

bool DeviceThread::Put(worker::DeviceCommand command) {
  return commands_.Put(std::move(command), absl::Now() + kDevicePutPatience);
}

std::optional<worker::DeviceEvent> DeviceThread::Take() {
  return events_.Take(absl::InfinitePast());
}

void DeviceThread::Hurry() {
  {
    MutexLock lock(&mutex_);
    hurry_ = true;
  }
  hurried_.NotifyAll();
}

Nanos DeviceThread::RestFor(Nanos duration) {
  const Nanos began = NodeLoop::Now();
  const absl::Time until = absl::Now() + absl::Nanoseconds(duration);
  MutexLock lock(&mutex_);
  while (!hurry_) {
    if (!hurried_.Wait(&mutex_, until)) break;
  }
  return NodeLoop::Now() - began;
}

void DeviceThread::Run(const std::stop_token& stop) {
  const Rest rest = [this](Nanos duration) { return RestFor(duration); };
  std::vector<worker::DeviceEvent> events;
  while (!stop.stop_requested()) {
    const std::optional<worker::DeviceCommand> command =
        commands_.Take(absl::Now() + kDeviceLookAgain);
    if (!command.has_value()) continue;
    runner_(*command, &events, rest);
    if (events.empty()) continue;
    for (worker::DeviceEvent& event : events) {
      if (events_.Put(std::move(event), absl::Now() + kDevicePutPatience)) continue;
      LOG_IF(ERROR, !stop.stop_requested()) << "the worker's loop takes no events";
      return;
    }
    events.clear();
    wake_();
  }
}

}  // namespace soapstone::apps
