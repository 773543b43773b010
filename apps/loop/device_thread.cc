#include "apps/loop/device_thread.h"

#include <glog/logging.h>
#include <pthread.h>

#include <utility>

#include "apps/loop/node_loop.h"
#include "base/steady_clock.h"

namespace soapstone::apps {
namespace {

constexpr size_t kEventsMax = size_t{1} << 20;
constexpr absl::Duration kEventPatience = absl::Seconds(2);
constexpr absl::Duration kDeviceLookAgain = absl::Seconds(1);

}  // namespace

DeviceThread::DeviceThread(Runner runner, std::function<void()> wake, Nanos patience_ns,
                           size_t commands_max)
    : runner_(std::move(runner)),
      wake_(std::move(wake)),
      commands_max_(commands_max),
      commands_(commands_max),
      events_(kEventsMax),
      watch_(patience_ns, kLookEvery),
      thread_([this](const std::stop_token& stop) {
        Run(stop);
        if (IsAbandoned()) delete this;  // it went on after all
      }) {}

DeviceThread::~DeviceThread() {
  thread_.request_stop();
  Hurry();
  commands_.Close();
  events_.Close();
}

bool DeviceThread::Put(worker::DeviceCommand* command) {
  if (commands_.size() >= commands_max_) return false;  // nobody else puts any
  {
    MutexLock lock(&mutex_);
    ++waiting_;
  }
  return commands_.TryPut(std::move(*command));
}

std::optional<worker::Overdue> DeviceThread::Look(Nanos now) {
  MutexLock lock(&mutex_);
  return watch_.Look(now, waiting_);
}

void DeviceThread::Abandon(std::unique_ptr<DeviceThread> hung) {
  DeviceThread* const left_behind = hung.release();
  MutexLock lock(&left_behind->mutex_);
  left_behind->abandoned_ = left_behind->hurry_ = true;
  left_behind->thread_.request_stop();
  left_behind->hurried_.NotifyAll();
  left_behind->commands_.Close();
  left_behind->events_.Close();
  left_behind->thread_.detach();
}

bool DeviceThread::IsAbandoned() {
  MutexLock lock(&mutex_);
  return abandoned_;
}

std::optional<worker::DeviceEvent> DeviceThread::Take() {
  return events_.Take(SteadyTime::InfinitePast());
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
  const SteadyTime until = SteadyTime::At(began) + absl::Nanoseconds(duration);
  MutexLock lock(&mutex_);
  watch_.BeginRest(began);
  while (!hurry_) {
    if (!hurried_.Wait(&mutex_, until)) break;
  }
  const Nanos ended = NodeLoop::Now();
  watch_.EndRest(ended);
  return ended - began;
}

void DeviceThread::RunOne(const worker::DeviceCommand& command,
                          std::vector<worker::DeviceEvent>* events) {
  {
    MutexLock lock(&mutex_);
    watch_.Begin(NodeLoop::Now(), command.what);
  }
  runner_(command, events, [this](Nanos duration) { return RestFor(duration); });
  MutexLock lock(&mutex_);
  watch_.End(NodeLoop::Now());
  --waiting_;
}

// False: the loop takes none any more.
bool DeviceThread::Deliver(std::vector<worker::DeviceEvent>* events, const std::stop_token& stop) {
  for (worker::DeviceEvent& event : *events) {
    if (events_.Put(std::move(event), SteadyNow() + kEventPatience)) continue;
    LOG_IF(ERROR, !stop.stop_requested()) << "the worker's loop takes no events";
    return false;
  }
  events->clear();
  MutexLock lock(&mutex_);
  if (!abandoned_) wake_();  // else there may be no loop any more
  return true;
}

void DeviceThread::Run(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "device");
  std::vector<worker::DeviceEvent> events;
  while (!stop.stop_requested()) {
    const std::optional<worker::DeviceCommand> command =
        commands_.Take(SteadyNow() + kDeviceLookAgain);
    if (!command.has_value()) continue;
    RunOne(*command, &events);
    if (!events.empty() && !Deliver(&events, stop)) return;
  }
}

}  // namespace soapstone::apps
