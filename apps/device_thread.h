// DeviceThread: where a worker computes. Commands go in through a bounded inbox and run in order;
// events come back through another. The executor it runs is touched by this thread alone.
#pragma once

#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/bounded_inbox.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "worker/device.h"

namespace soapstone::apps {

// The loop's thread constructs, Puts, Takes and destroys (which waits for the command in hand).
class DeviceThread {
 public:
  // Sleeps for so long, or less where the thread is to hurry; returns how long it was.
  using Rest = std::function<Nanos(Nanos)>;
  // Runs one command; appends the events it gives rise to. It may rest.
  using Runner = std::function<void(const worker::DeviceCommand&, std::vector<worker::DeviceEvent>*,
                                    const Rest&)>;

  // `wake` makes the loop look for events; any thread may call it.
  DeviceThread(Runner runner, std::function<void()> wake);
  ~DeviceThread();
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  // False when the device has not taken its commands for too long.
  bool Put(worker::DeviceCommand command);
  // The oldest event that was not taken yet, if there is one.
  std::optional<worker::DeviceEvent> Take();
  // Ends the rest in hand; from now on there is none. The commands are run all the same.
  void Hurry() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run(const std::stop_token& stop);
  Nanos RestFor(Nanos duration) ABSL_LOCKS_EXCLUDED(mutex_);

  Runner runner_;
  std::function<void()> wake_;
  BoundedInbox<worker::DeviceCommand> commands_;
  BoundedInbox<worker::DeviceEvent> events_;
  Mutex mutex_;
  Signal hurried_;
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace soapstone::apps
