// DeviceThread: where a worker computes. Commands go in through a bounded inbox and run in order;
// events come back through another. The executor it runs is touched by this thread alone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/ids.h"
#include "base/memory/bounded_inbox.h"
#include "base/mutex.h"
#include "worker/device/command_watch.h"
#include "worker/device/device.h"

namespace soapstone::apps {

// The loop's thread constructs, Puts, Takes and destroys (which waits for the command in hand).
class DeviceThread {
 public:
  // Sleeps for so long, or less where the thread is to hurry; returns how long it was.
  using Rest = std::function<Nanos(Nanos)>;
  // Runs one command; appends the events it gives rise to. It may rest.
  using Runner = std::function<void(const worker::DeviceCommand&, std::vector<worker::DeviceEvent>*,
                                    const Rest&)>;

  // `wake` makes the loop look for events; any thread may call it. patience_ns: the floor of the
  // time that a command may take, as worker::CommandWatch has it.
  DeviceThread(Runner runner, std::function<void()> wake, Nanos patience_ns = 5 * kSecond,
               size_t commands_max = size_t{1} << 16);
  ~DeviceThread();
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  // False: it has as many as it may, and `command` is still the caller's, to be put again. A step
  // may have more; that the device goes on at all is for Look to say.
  bool Put(worker::DeviceCommand* command);
  // The oldest event that was not taken yet, if there is one.
  std::optional<worker::DeviceEvent> Take();
  // Ends the rest in hand; from now on there is none. The commands are run all the same.
  void Hurry() ABSL_LOCKS_EXCLUDED(mutex_);

  // How often Look is called while there is anything to wait for.
  static constexpr Nanos kLookEvery = kSecond;
  // Whether the device takes too long over what it has in hand.
  std::optional<worker::Overdue> Look(Nanos now) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of a hung one, which cannot be destroyed: that would wait for it. It is left behind, until it
  // goes on after all or the process ends, and calls nobody any more.
  static void Abandon(std::unique_ptr<DeviceThread> hung);

 private:
  void Run(const std::stop_token& stop);
  bool IsAbandoned() ABSL_LOCKS_EXCLUDED(mutex_);
  void RunOne(const worker::DeviceCommand& command, std::vector<worker::DeviceEvent>* events)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool Deliver(std::vector<worker::DeviceEvent>* events, const std::stop_token& stop)
      ABSL_LOCKS_EXCLUDED(mutex_);
  Nanos RestFor(Nanos duration) ABSL_LOCKS_EXCLUDED(mutex_);

  Runner runner_;
  std::function<void()> wake_;
  const size_t commands_max_;
  BoundedInbox<worker::DeviceCommand> commands_;
  BoundedInbox<worker::DeviceEvent> events_;
  Mutex mutex_;
  Signal hurried_;
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  worker::CommandWatch watch_ ABSL_GUARDED_BY(mutex_);
  uint64_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // put, and not ended
  std::jthread thread_;
};

}  // namespace soapstone::apps
