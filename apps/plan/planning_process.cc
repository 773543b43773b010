#include "apps/plan/planning_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "apps/cli/launched.h"
#include "base/exit_codes.h"
#include "base/stop_signals.h"

namespace soapstone::apps {
namespace {

constexpr timespec kSignalTurn = {.tv_sec = 0, .tv_nsec = 100'000'000};
constexpr int kTurnsOfKilled = 50;  // of what was killed

std::optional<int> CodeOfSignal(int signal_number) {
  if (signal_number == SIGCHLD || signal_number <= 0) return std::nullopt;
  return signal_number == SIGINT ? kExitInterrupted : kExitTerminated;
}

[[noreturn]] void DoApart(const std::string& folder, pid_t parent, const sigset_t& mask,
                          const std::function<void()>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitInternal);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  setenv("TMPDIR", folder.c_str(), 1);
  work();
  std::fflush(nullptr);
  _exit(kExitOk);
}

// What it started is killed when it is gone (child_process.cc), and is ours then (a subreaper's).
void AwaitOrphans(const sigset_t& signals) {
  for (int turn = 0; turn < kTurnsOfKilled; ++turn) {
    pid_t ended = 0;
    do {
      ended = waitpid(-1, nullptr, WNOHANG);
    } while (ended > 0);
    if (ended < 0 && errno == ECHILD) return;
    sigtimedwait(&signals, nullptr, &kSignalTurn);
  }
}

ProcessEnd AwaitPlan(pid_t child, const sigset_t& signals) {
  ProcessEnd end;
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) {
      const Ending ending = {
          .by_signal = WIFSIGNALED(status),
          .number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)};
      if (!ending.good()) end.failed = ending.ToString();
      return end;
    }
    end.asked = CodeOfSignal(sigtimedwait(&signals, nullptr, &kSignalTurn));
    if (!end.asked.has_value()) continue;
    kill(child, SIGKILL);
    return end;
  }
}

}  // namespace

absl::StatusOr<ProcessEnd> RunApart(const ScratchFolder& folder,
                                    const std::function<void()>& work) {
  sigset_t signals = StopSignals();
  sigaddset(&signals, SIGCHLD);
  sigset_t before;
  sigprocmask(SIG_BLOCK, &signals, &before);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) DoApart(folder.path(), parent, before, work);
  absl::StatusOr<ProcessEnd> end =
      absl::InternalError(absl::StrCat("cannot start a process: ", std::strerror(errno)));
  if (child > 0) {
    end = AwaitPlan(child, signals);
    if (end->asked.has_value() && isatty(STDERR_FILENO) != 0) std::fputs("\r\x1b[K", stderr);
    AwaitOrphans(signals);
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  const timespec now = {};
  while (child > 0 && !end->asked.has_value()) {  // one that came meanwhile
    const int number = sigtimedwait(&signals, nullptr, &now);
    if (number < 0) break;
    end->asked = CodeOfSignal(number);
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return end;
}

}  // namespace soapstone::apps
