// SignalWatch: turns the signals that ask for the end (base/stop_signals.h) into a call of a
// function, on an ordinary thread. Made by the main() of the daemons before any other thread.
#pragma once

#include <signal.h>

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace soapstone::apps {

// Invariant: while it lives these signals are blocked in this thread and in threads started from
// it, and SIGPIPE is ignored.
class SignalWatch {
 public:
  // Until Attach a signal ends the process at once: there is nothing to clean up yet.
  SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // From now on a signal calls `on_signal(code, value)`, with the exit code of a clean stop (143 or
  // 130) and what the process that started this one sent with it (base/stop_signals.h; 0: nothing),
  // on the watch's thread; it must be thread-safe.
  using OnStop = std::function<void(int code, int value)>;
  void Attach(OnStop on_signal);
  // No call is in progress, and none comes, after this returns.
  void Detach();

 private:
  void OnSignal(int code, int value);

  Mutex mutex_;
  OnStop on_signal_ ABSL_GUARDED_BY(mutex_);
  sigset_t signals_;
  std::jthread thread_;
};

}  // namespace soapstone::apps
