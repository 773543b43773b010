// DeviceThread: where a worker computes. Commands go in through a bounded inbox and run in order;
// events come back through another. The executor it runs is touched by this thread alone.
#pragma once

#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "base/bounded_inbox.h"
#include "worker/device.h"

namespace soapstone::apps {

// The loop's thread constructs, Puts, Takes and destroys (which waits for the command in hand).
class DeviceThread {
 public:
  // Runs one command; appends the events it gives rise to.
  using Runner =
      std::function<void(const worker::DeviceCommand&, std::vector<worker::DeviceEvent>*)>;

  // `wake` makes the loop look for events; any thread may call it.
  DeviceThread(Runner runner, std::function<void()> wake);
  ~DeviceThread();
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  // False when the device has not taken its commands for too long.
  bool Put(worker::DeviceCommand command);
  // The oldest event that was not taken yet, if there is one.
  std::optional<worker::DeviceEvent> Take();

 private:
  void Run(const std::stop_token& stop);

  Runner runner_;
  std::function<void()> wake_;
  BoundedInbox<worker::DeviceCommand> commands_;
  BoundedInbox<worker::DeviceEvent> events_;
  std::jthread thread_;
};

}  // namespace soapstone::apps
