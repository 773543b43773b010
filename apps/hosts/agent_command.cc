#include "apps/hosts/agent_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "apps/cli/child_process.h"
#include "apps/cli/node_flags.h"
#include "apps/hosts/agent_message.h"
#include "apps/hosts/memory_file.h"
#include "apps/hosts/unsent_bytes.h"
#include "apps/loop/node_loop.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/stop_signals.h"

namespace soapstone::apps {
namespace {

constexpr int kPollMillis = 100;
constexpr size_t kRequestBytesMax = size_t{16} << 20;
// While so much waits to be sent the processes' output is left in their pipes.
constexpr size_t kUnsentBytesMax = size_t{8} << 20;
constexpr Nanos kSilenceMax = 60 * kSecond;
constexpr Nanos kKillAfter = 2 * kSecond;

struct Process {
  std::unique_ptr<MemoryFile> key;  // null: none
  std::unique_ptr<ChildProcess> child;
};

class Agent {
 public:
  int Run();

 private:
  bool ReadInput();    // false: it has ended
  bool WriteOutput();  // false: nobody reads any more
  bool ToldToEnd();
  void Say(const AgentMessage& message) { unsent_.AddLine(ToJsonLine(message)); }
  void OnLine(const std::string& line);
  void Check(const CheckJob& check);
  absl::Status BeginCheck(const CheckJob& check);
  void FinishCheck();
  void Start(const StartProcess& start);
  absl::StatusOr<Process> StartHere(const StartProcess& start);
  void ReadProcesses();
  void ReadProcess(int id, ChildProcess* child);
  void Wait(bool with_input);
  void EndProcesses();

  int signal_fd_ = -1;
  LineSplitter lines_{kRequestBytesMax};
  UnsentBytes unsent_;
  std::string build_;
  std::unique_ptr<MemoryFile> job_;
  std::unique_ptr<ChildProcess> checking_;  // while it reads the data
  bool can_run_ = false;                    // the job, here
  std::map<int, Process> processes_;        // by id, those that run
  int read_last_ = -1;                      // of them; the others have their turn first
  Nanos heard_ = 0;
  Nanos spoke_ = 0;
};

int Agent::Run() {
  sigset_t signals = StopSignals();
  sigaddset(&signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal_fd_ = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) fcntl(fd, F_SETFL, O_NONBLOCK);
  ForgetNodeVariables();
  for (const char* name : kRankVariables) unsetenv(name);  // of whoever started ssh's end here
  for (heard_ = NodeLoop::Now(); ReadInput() && NodeLoop::Now() - heard_ < kSilenceMax;) {
    FinishCheck();
    ReadProcesses();
    if (NodeLoop::Now() - spoke_ >= kSecond && unsent_.empty()) {
      spoke_ = NodeLoop::Now();
      Say(StillHere{});
    }
    if (!WriteOutput() || ToldToEnd()) break;
    Wait(true);
  }
  EndProcesses();
  return kExitOk;
}

bool Agent::ToldToEnd() {
  bool told = false;
  signalfd_siginfo info;
  while (read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
    told = told || info.ssi_signo != SIGCHLD;
  }
  return told;
}

bool Agent::ReadInput() {
  char bytes[16384];
  const ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) return false;
  lines_.Add({bytes, static_cast<size_t>(n)}, [this](const std::string& line) { OnLine(line); });
  heard_ = NodeLoop::Now();
  return true;
}

bool Agent::WriteOutput() {
  while (!unsent_.empty()) {
    const ssize_t n = write(STDOUT_FILENO, unsent_.front().data(), unsent_.size());
    if (n < 0 && errno == EAGAIN) return true;
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) unsent_.Drop(static_cast<size_t>(n));
  }
  return true;
}

void Agent::OnLine(const std::string& line) {
  const std::optional<AgentMessage> message = FromJsonLine(line);
  if (!message.has_value()) {
    std::cerr << "soapstone agent: a line of " << line.size()
              << " bytes is no request of `soapstone train`\n";  // it may hold a key
  } else if (const auto* check = std::get_if<CheckJob>(&*message)) {
    Check(*check);
  } else if (const auto* start = std::get_if<StartProcess>(&*message)) {
    Start(*start);
  } else if (const auto* wanted = std::get_if<SignalProcess>(&*message)) {
    const auto process = processes_.find(wanted->id);
    if (process != processes_.end()) process->second.child->Signal(wanted->number);
  }
}

void Agent::Check(const CheckJob& check) {
  const absl::StatusOr<std::string> build = BuildId();
  // Another build may read the job in another way; the launcher sees that it is one.
  if (build.ok() && *build != check.build) return Say(Checked{.build = *build});
  build_ = check.build;
  const absl::Status begun = build.ok() ? BeginCheck(check) : build.status();
  if (!begun.ok()) Say(Checked{.build = build_, .error = std::string(begun.message())});
}

// A process of its own reads the data: it may take minutes, in which this one has to hear.
absl::Status Agent::BeginCheck(const CheckJob& check) {
  SOAP_ASSIGN_OR_RETURN(job_, MemoryFile::Make(check.job));
  SOAP_ASSIGN_OR_RETURN(
      checking_,
      ChildProcess::Start({.name = "check",
                           .command = {"/proc/self/exe", "node",
                                       absl::StrCat("--config=", job_->path()), "--check"},
                           .log_path = "/dev/null",
                           .inherited = {job_->fd()}}));
  return absl::OkStatus();
}

void Agent::FinishCheck() {
  if (checking_ == nullptr) return;
  checking_->Poll();
  checking_->ReadStdout([](const std::string&) {});
  checking_->ReadStderr([](const std::string&) {});
  std::vector<int> open;
  checking_->AppendFds(&open);
  if (!checking_->ending().has_value() || !open.empty()) return;
  can_run_ = checking_->ending()->good();
  std::string error;
  if (!can_run_) error = checking_->ending()->ToString();
  if (!can_run_ && !checking_->last_lines().empty()) error = checking_->last_lines().back();
  checking_.reset();
  Say(Checked{.build = build_, .error = std::string(absl::StripPrefix(error, "soapstone node: "))});
}

void Agent::Start(const StartProcess& start) {
  absl::StatusOr<Process> process = StartHere(start);
  if (process.ok()) {
    processes_[start.id] = *std::move(process);
    return;
  }
  Say(OutputLine{
      .id = start.id, .is_error = true, .text = std::string(process.status().message())});
  Say(ProcessEnded{.id = start.id, .number = kExitInternal});
}

absl::StatusOr<Process> Agent::StartHere(const StartProcess& start) {
  if (!can_run_) return absl::FailedPreconditionError("the job was not checked here");
  Process process;
  ChildProcess::Spec spec = {
      .name = start.name,
      .command = {"/proc/self/exe", "node", absl::StrCat("--config=", job_->path()),
                  absl::StrCat("--index=", start.index),
                  absl::StrCat("--scheduler=", start.scheduler), "--progress=json"},
      .log_path = "/dev/null",
      .inherited = {job_->fd()}};
  if (!start.bind.empty()) spec.command.push_back(absl::StrCat("--bind=", start.bind));
  if (!start.cpus.empty()) spec.command.push_back(absl::StrCat("--cpus=", start.cpus));
  if (!start.key.empty()) {
    SOAP_ASSIGN_OR_RETURN(process.key, MemoryFile::Make(start.key));
    spec.command.push_back(absl::StrCat("--key=", process.key->path()));
    spec.inherited.push_back(process.key->fd());
  }
  SOAP_ASSIGN_OR_RETURN(process.child, ChildProcess::Start(std::move(spec)));
  return process;
}

void Agent::ReadProcesses() {
  std::vector<int> ids;
  for (auto it = processes_.upper_bound(read_last_); it != processes_.end(); ++it) {
    ids.push_back(it->first);
  }
  const auto turned = processes_.upper_bound(read_last_);
  for (auto it = processes_.begin(); it != turned; ++it) ids.push_back(it->first);
  for (const int id : ids) {
    if (unsent_.size() >= kUnsentBytesMax) return;
    ReadProcess(id, processes_[id].child.get());
    read_last_ = id;
  }
}

void Agent::ReadProcess(int id, ChildProcess* child) {
  child->Poll();
  child->ReadStdout([&](const std::string& line) { Say(OutputLine{.id = id, .text = line}); });
  child->ReadStderr(
      [&](const std::string& line) { Say(OutputLine{.id = id, .is_error = true, .text = line}); });
  std::vector<int> open;
  child->AppendFds(&open);
  if (!child->ending().has_value() || !open.empty()) return;
  Say(ProcessEnded{id, child->ending()->by_signal, child->ending()->number});
  processes_.erase(id);
}

void Agent::Wait(bool with_input) {
  std::vector<int> readable = {signal_fd_};
  if (with_input) readable.push_back(STDIN_FILENO);
  if (unsent_.size() < kUnsentBytesMax) {
    for (const auto& [id, process] : processes_) process.child->AppendFds(&readable);
  }
  if (checking_ != nullptr) checking_->AppendFds(&readable);
  std::vector<pollfd> fds;
  for (const int fd : readable) fds.push_back({.fd = fd, .events = POLLIN});
  if (!unsent_.empty()) fds.push_back({.fd = STDOUT_FILENO, .events = POLLOUT});
  poll(fds.data(), fds.size(), kPollMillis);
}

void Agent::EndProcesses() {
  checking_.reset();
  for (const auto& [id, process] : processes_) process.child->Signal(SIGTERM);
  const Nanos kill_at = NodeLoop::Now() + kKillAfter;
  while (!processes_.empty() && NodeLoop::Now() < kill_at) {
    unsent_ = {};  // nobody reads it
    ReadProcesses();
    ToldToEnd();  // so that it waits
    Wait(false);
  }
  processes_.clear();  // kills what runs
}

}  // namespace

int RunAgent() { return Agent().Run(); }

}  // namespace soapstone::apps
