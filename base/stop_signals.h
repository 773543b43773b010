// StopSignals: the signals that ask a process to end, and what a launcher says with one.
#pragma once

#include <signal.h>

#include <cstdint>
#include <optional>

#include "base/exit_codes.h"

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

// The exit code of one of them that waits, blocked; 0: none does.
inline int CodeOfPendingStop() {
  sigset_t pending;
  sigpending(&pending);
  if (sigismember(&pending, SIGINT) == 1) return kExitInterrupted;
  return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGHUP) == 1 ? kExitTerminated
                                                                                   : kExitOk;
}

// Said by a launcher with SIGTERM to the scheduler that it started: which server's or worker's
// process has ended, and the code that the job is to end with for it.
struct EndedProcess {
  bool is_worker = false;
  uint32_t rank = 0;
  int code = 0;
  friend bool operator==(const EndedProcess&, const EndedProcess&) = default;
};
inline constexpr uint32_t kEndedRankMax = (1u << 22) - 1;

// Said likewise: the job is to stop with a checkpoint, for it will go on by another strategy.
inline constexpr int kStopForStrategy = 2;

// A signal's value: never 0, nor kStopForStrategy. REQUIRES: rank <= kEndedRankMax, code in [1,
// 255].
inline int SignalValueOf(const EndedProcess& ended) {
  return static_cast<int>(1u | (ended.is_worker ? 2u : 0u) |
                          static_cast<uint32_t>(ended.code) << 2 | ended.rank << 10);
}
inline std::optional<EndedProcess> EndedProcessOf(int signal_value) {
  const auto bits = static_cast<uint32_t>(signal_value);
  const EndedProcess ended = {
      .is_worker = (bits & 2) != 0, .rank = bits >> 10, .code = static_cast<int>(bits >> 2 & 0xff)};
  if ((bits & 1) == 0 || ended.code == 0) return std::nullopt;  // who ended well ends nobody
  return ended;
}

}  // namespace soapstone
