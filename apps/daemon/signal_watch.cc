#include "apps/daemon/signal_watch.h"

#include <unistd.h>

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
  on_signal_ = [](int code, int) { std::_Exit(code); };
  thread_ = std::jthread([this](const std::stop_token& stop) {
    const timespec patience{.tv_sec = 0, .tv_nsec = 100 * kMillisecond};
    while (!stop.stop_requested()) {
      siginfo_t about = {};
      const int signal_number = sigtimedwait(&signals_, &about, &patience);
      if (signal_number <= 0) continue;  // nothing came
      const bool of_launcher = about.si_code == SI_QUEUE && about.si_pid == getppid();
      OnSignal(signal_number == SIGINT ? kExitInterrupted : kExitTerminated,
               of_launcher ? about.si_value.sival_int : 0);
    }
  });
}

void SignalWatch::OnSignal(int code, int value) {
  MutexLock lock(&mutex_);
  if (on_signal_) on_signal_(code, value);
}

void SignalWatch::Attach(OnStop on_signal) {
  MutexLock lock(&mutex_);
  on_signal_ = std::move(on_signal);
}

void SignalWatch::Detach() { Attach(nullptr); }

}  // namespace soapstone::apps
