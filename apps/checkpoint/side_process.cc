#include "apps/checkpoint/side_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace soapstone::apps {
namespace {

constexpr int kLessPriority = 10;  // a tenth of a processor that the job wants for itself
constexpr int kCannotRun = 127;
constexpr size_t kSaidBytesMax = size_t{64} << 20;  // a count for each two classes
constexpr size_t kComplainedBytesMax = size_t{64} << 10;

struct Pipes {
  int out[2] = {-1, -1};
  int err[2] = {-1, -1};
  bool Open() { return pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0; }
  void Close() {
    for (const int fd : {out[0], out[1], err[0], err[1]}) {
      if (fd >= 0) close(fd);
    }
  }
};

// In the child, between fork and exec: only what is safe there.
[[noreturn]] void Become(char* const* arguments, const Pipes& pipes, pid_t parent) {
  setpgid(0, 0);  // a terminal's Ctrl-C is the job's
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotRun);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  const bool less = nice(kLessPriority) != -1;  // else with that of the job
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(pipes.out[1], STDOUT_FILENO);
  dup2(pipes.err[1], STDERR_FILENO);
  close_range(STDERR_FILENO + 1, ~0U, 0);  // the job's connections end with the job
  execv(arguments[0], arguments);
  const char* why = strerror(errno);
  const bool said = write(STDERR_FILENO, why, strlen(why)) > 0;
  _exit(less && said ? kCannotRun : kCannotRun + 1);
}

// What is there; beyond `bytes_max` it is read and dropped.
void ReadInto(int* fd, size_t bytes_max, std::string* text) {
  char bytes[16384];
  while (*fd >= 0) {
    const ssize_t n = read(*fd, bytes, sizeof(bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      close(*fd);
      *fd = -1;
      return;
    }
    text->append(bytes, std::min(static_cast<size_t>(n), bytes_max - text->size()));
  }
}

// The last line that says something, without the command that says it ("soapstone evaluate: ").
std::string LastLine(const std::string& text) {
  std::string last;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    const size_t colon = line.find(": ");
    if (absl::StartsWith(line, "soapstone ") && colon != line.npos) line.remove_prefix(colon + 2);
    if (!line.empty()) last = std::string(line);
  }
  return last;
}

}  // namespace

absl::StatusOr<std::string> CommandBeside() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = (self.parent_path() / "soapstone").string();
  if (access(path.c_str(), X_OK) == 0) return path;
  return absl::NotFoundError(absl::StrCat(path, " is missing, which evaluates checkpoints"));
}

absl::StatusOr<std::unique_ptr<SideProcess>> SideProcess::Start(Spec spec, Nanos now) {
  std::unique_ptr<SideProcess> process(new SideProcess(std::move(spec)));
  std::vector<char*> arguments;
  for (std::string& word : process->spec_.command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Pipes pipes;
  const pid_t parent = getpid();
  const bool piped = pipes.Open();
  const pid_t pid = piped ? fork() : -1;
  if (pid == 0) Become(arguments.data(), pipes, parent);
  if (pid < 0) {
    const int error = errno;
    pipes.Close();
    return absl::UnavailableError(
        absl::StrCat(arguments[0], " cannot be started: ", std::strerror(error)));
  }
  close(pipes.out[1]);
  close(pipes.err[1]);
  process->pid_ = pid;
  process->out_ = pipes.out[0];
  process->err_ = pipes.err[0];
  for (const int fd : {process->out_, process->err_}) fcntl(fd, F_SETFL, O_NONBLOCK);
  process->began_ = process->worked_ = now;
  return process;
}

SideProcess::~SideProcess() {
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);  // a killed process ends at once
  }
  if (out_ >= 0) close(out_);
  if (err_ >= 0) close(err_);
}

// Of proc(5): user and system time, the 14th and the 15th word; the name, the 2nd, may have blanks.
uint64_t SideProcess::Ticks() const {
  std::ifstream file(absl::StrCat("/proc/", pid_, "/stat"));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == text.npos) return 0;
  const std::vector<std::string> words =
      absl::StrSplit(text.substr(name_end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kUser = 11;  // behind the name, from 0
  uint64_t user = 0, system = 0;
  if (words.size() <= kUser + 1 || !absl::SimpleAtoi(words[kUser], &user) ||
      !absl::SimpleAtoi(words[kUser + 1], &system)) {
    return 0;
  }
  return user + system;
}

std::optional<absl::StatusOr<std::string>> SideProcess::Poll(Nanos now) {
  if (pid_ < 0) return std::nullopt;  // told already
  ReadInto(&out_, kSaidBytesMax, &said_);
  ReadInto(&err_, kComplainedBytesMax, &complained_);
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) {
    pid_ = -1;
    ReadInto(&out_, kSaidBytesMax, &said_);
    ReadInto(&err_, kComplainedBytesMax, &complained_);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::move(said_);
    std::string why = killed_for_.empty() ? LastLine(complained_) : killed_for_;
    if (why.empty()) {
      why = WIFSIGNALED(status) ? absl::StrCat("it was killed by signal ", WTERMSIG(status))
                                : absl::StrCat("it ended with exit code ", WEXITSTATUS(status));
    }
    return absl::UnavailableError(why);
  }
  const uint64_t ticks = Ticks();
  if (ticks != ticks_) worked_ = now;
  ticks_ = ticks;
  const bool idle = now - worked_ >= spec_.idle_max;
  if (killed_for_.empty() && (idle || now - began_ >= spec_.all_max)) {
    killed_for_ = idle ? absl::StrCat("it did nothing for ", spec_.idle_max / kSecond, " s")
                       : absl::StrCat("it took more than ", spec_.all_max / kSecond, " s");
    kill(pid_, SIGKILL);
  }
  return std::nullopt;
}

}  // namespace soapstone::apps
