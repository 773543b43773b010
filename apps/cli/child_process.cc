#include "apps/cli/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/exit_codes.h"

namespace soapstone::apps {
namespace {

constexpr size_t kLastLinesMax = 10;
constexpr int kExecFailed = 127;
constexpr size_t kReadAtOnceMax = size_t{4} << 20;

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  // `ours`: the end that stays here.
  bool Open(int Pipe::*ours) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read_end = ends[0];
    write_end = ends[1];
    fcntl(this->*ours, F_SETFL, O_NONBLOCK);
    return true;
  }
  void Close() {
    if (read_end >= 0) close(read_end);
    if (write_end >= 0) close(write_end);
  }
};

// In the child, between fork and exec: only what is safe there.
[[noreturn]] void BecomeProgram(char* const* arguments, const std::vector<int>& inherited,
                                const Pipe& in, const Pipe& out, const Pipe& err, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExecFailed);  // it died before we asked
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  dup2(in.read_end >= 0 ? in.read_end : open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(out.write_end, STDOUT_FILENO);
  dup2(err.write_end, STDERR_FILENO);
  for (const int fd : inherited) fcntl(fd, F_SETFD, 0);
  execvp(arguments[0], arguments);
  const char* why = strerror(errno);
  const bool said = write(STDERR_FILENO, why, strlen(why)) > 0;
  _exit(said ? kExecFailed : kExecFailed + 1);
}

// Reads what is there into `lines`. Closes the pipe at its end.
void Drain(int* fd, LineSplitter* lines, const std::function<void(const std::string&)>& on_line) {
  char bytes[16384];
  // Who writes as fast as this reads would keep it for ever.
  for (size_t taken = 0; *fd >= 0 && taken < kReadAtOnceMax;) {
    const ssize_t n = read(*fd, bytes, sizeof(bytes));
    if (n > 0) {
      taken += static_cast<size_t>(n);
      lines->Add({bytes, static_cast<size_t>(n)}, on_line);
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && errno == EAGAIN) {
      return;
    } else {
      lines->Flush(on_line);
      close(*fd);
      *fd = -1;
    }
  }
}

const char* MeaningOf(int code) {
  switch (code) {
    case kExitInternal:
      return " (internal error)";
    case kExitBroken:
      return " (the policy's guarantee was broken)";
    case kExitConfig:
      return " (configuration)";
    case kExitInterrupted:
      return " (interrupted)";
    case kExitPeerLost:
      return " (a peer was lost)";
    case kExitTerminated:
      return " (terminated)";
    default:
      return "";
  }
}

}  // namespace

void LineSplitter::Add(std::string_view bytes,
                       const std::function<void(const std::string&)>& on_line) {
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, newline);
    line_.append(piece.substr(0, line_bytes_max_ - line_.size()));
    if (newline == std::string_view::npos) return;
    on_line(line_);
    line_.clear();
    bytes.remove_prefix(newline + 1);
  }
}

void LineSplitter::Flush(const std::function<void(const std::string&)>& on_line) {
  if (!line_.empty()) on_line(line_);
  line_.clear();
}

std::string Ending::ToString() const {
  if (!by_signal) return absl::StrCat("exit code ", number, MeaningOf(number));
  const char* name = sigabbrev_np(number);
  return absl::StrCat("killed by SIG", name == nullptr ? std::to_string(number) : name);
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(Spec spec) {
  std::unique_ptr<ChildProcess> child(new ChildProcess(std::move(spec)));
  const auto failed = [&child](const std::string& what) -> absl::Status {
    const bool descriptors = errno == EMFILE || errno == ENFILE;
    const std::string line =
        absl::StrCat("cannot start ", child->name(), ": ", what, ": ", std::strerror(errno));
    if (descriptors) return absl::ResourceExhaustedError(absl::StrCat(line, "; raise `ulimit -n`"));
    return absl::UnavailableError(line);
  };
  child->log_.reset(std::fopen(child->spec_.log_path.c_str(), "we"));
  if (child->log_ == nullptr) return failed(child->spec_.log_path);
  std::vector<char*> arguments;
  for (std::string& argument : child->spec_.command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  Pipe in;
  Pipe out;
  Pipe err;
  const pid_t parent = getpid();
  const bool piped = (!child->spec_.fed || in.Open(&Pipe::write_end)) &&
                     out.Open(&Pipe::read_end) && err.Open(&Pipe::read_end);
  child->pid_ = piped ? fork() : -1;
  if (child->pid_ == 0)
    BecomeProgram(arguments.data(), child->spec_.inherited, in, out, err, parent);
  if (child->pid_ < 0) {
    const absl::Status status = failed(piped ? "fork" : "pipe");
    for (Pipe* pipe : {&in, &out, &err}) pipe->Close();
    return status;
  }
  if (in.read_end >= 0) close(in.read_end);
  close(out.write_end);
  close(err.write_end);
  child->stdin_fd_ = in.write_end;
  child->stdout_fd_ = out.read_end;
  child->stderr_fd_ = err.read_end;
  return child;
}

ChildProcess::~ChildProcess() {
  Poll();
  if (pid_ > 0 && !ending_.has_value()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);  // a killed process ends at once
  }
  CloseStdin();
  if (stdout_fd_ >= 0) close(stdout_fd_);
  if (stderr_fd_ >= 0) close(stderr_fd_);
}

void ChildProcess::AppendFds(std::vector<int>* fds) const {
  for (const int fd : {stdout_fd_, stderr_fd_}) {
    if (fd >= 0) fds->push_back(fd);
  }
}

std::optional<size_t> ChildProcess::Feed(std::string_view bytes) {
  size_t written = 0;
  while (stdin_fd_ >= 0 && written < bytes.size()) {
    const ssize_t n = write(stdin_fd_, bytes.data() + written, bytes.size() - written);
    if (n > 0) written += static_cast<size_t>(n);
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0 && errno != EINTR) CloseStdin();
  }
  if (stdin_fd_ < 0) return std::nullopt;
  return written;
}

void ChildProcess::CloseStdin() {
  if (stdin_fd_ >= 0) close(stdin_fd_);
  stdin_fd_ = -1;
}

void ChildProcess::ReadStdout(const OnLine& on_line) {
  Drain(&stdout_fd_, &stdout_lines_, on_line);
}

void ChildProcess::ReadStderr(const OnLine& on_line) {
  Drain(&stderr_fd_, &stderr_lines_, [&](const std::string& line) {
    std::fprintf(log_.get(), "%s\n", line.c_str());
    std::fflush(log_.get());
    last_lines_.push_back(line);
    if (last_lines_.size() > kLastLinesMax) last_lines_.pop_front();
    on_line(line);
  });
}

void ChildProcess::Signal(int signal_number) {
  if (pid_ > 0 && !ending_.has_value()) kill(pid_, signal_number);
}

void ChildProcess::SignalWith(int signal_number, int value) {
  if (pid_ > 0 && !ending_.has_value()) sigqueue(pid_, signal_number, {.sival_int = value});
}

// /proc/PID/stat: "pid (name) state ppid ...", of which the 14th and the 15th are user and system
// time (proc(5)). The name may have any characters. The result: what is behind it.
std::vector<std::string> ChildProcess::StatFields() const {
  std::ifstream file(absl::StrCat("/proc/", pid_, "/stat"));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == text.npos) return {};
  return absl::StrSplit(text.substr(name_end + 1), ' ', absl::SkipEmpty());
}

uint64_t ChildProcess::CpuTicks() const {
  const std::vector<std::string> fields = StatFields();
  uint64_t user = 0, system = 0;
  constexpr size_t kUserTime = 11;  // behind the name, from 0
  if (fields.size() <= kUserTime + 1 || !absl::SimpleAtoi(fields[kUserTime], &user) ||
      !absl::SimpleAtoi(fields[kUserTime + 1], &system)) {
    return 0;
  }
  return user + system;
}

bool ChildProcess::IsStopped() const {
  const std::vector<std::string> fields = StatFields();
  return !fields.empty() && fields.front() == "T";
}

void ChildProcess::Poll() {
  if (pid_ <= 0 || ending_.has_value()) return;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return;
  ending_ =
      WIFSIGNALED(status) ? Ending{true, WTERMSIG(status)} : Ending{false, WEXITSTATUS(status)};
}

}  // namespace soapstone::apps
