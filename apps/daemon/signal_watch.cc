#include "apps/daemon/signal_watch.h"

#include <cstdlib>
#include <ctime>
#include <utility>

#include "base/exit_codes.h"
#include "base/ids.h"
#include "base/stop_signals.h"

namespace soapstone::apps {

SignalWatch::SignalWatch() : signals_(StopSignals()) {
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  signal(SIGPIPE, SIG_IGN);
  on_signal_ = [](int code) { std::_Exit(code); };
  thread_ = std::jthread([this](const std::stop_token& stop) {
    const timespec patience{.tv_sec = 0, .tv_nsec = 100 * kMillisecond};
    while (!stop.stop_requested()) {
      const int signal_number = sigtimedwait(&signals_, nullptr, &patience);
      if (signal_number <= 0) continue;  // nothing came
      OnSignal(signal_number == SIGINT ? kExitInterrupted : kExitTerminated);
    }
  });
}

void SignalWatch::OnSignal(int code) {
  MutexLock lock(&mutex_);
  if (on_signal_) on_signal_(code);
}

void SignalWatch::Attach(std::function<void(int code)> on_signal) {
  MutexLock lock(&mutex_);
  on_signal_ = std::move(on_signal);
}

void SignalWatch::Detach() { Attach(nullptr); }

}  // namespace soapstone::apps
