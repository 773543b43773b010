// StopSignals: the signals that ask a process to end.
#pragma once

#include <signal.h>

namespace soapstone {

// SIGTERM, SIGINT and SIGHUP, but not SIGHUP where whoever started the process had it ignored
// (nohup): a blocked signal that is ignored is kept and read like any other.
inline sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);
  return signals;
}

}  // namespace soapstone
