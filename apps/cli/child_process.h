// ChildProcess: a program started by the launcher, with its output piped to it line by line. No
// child outlives the launcher, however that ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace soapstone::apps {

// Splits what a pipe yields into lines, at most `line_bytes_max` each; the rest of a longer one
// is cut off.
class LineSplitter {
 public:
  explicit LineSplitter(size_t line_bytes_max) : line_bytes_max_(line_bytes_max) {}
  // Appends bytes; calls `on_line` for each line that they complete, without its newline.
  void Add(std::string_view bytes, const std::function<void(const std::string&)>& on_line);
  // What is left without a newline.
  void Flush(const std::function<void(const std::string&)>& on_line);

 private:
  size_t line_bytes_max_;
  std::string line_;
};

// How a process ended.
struct Ending {
  bool by_signal = false;
  int number = 0;  // the exit code, or the signal
  bool good() const { return !by_signal && number == 0; }
  std::string ToString() const;  // "exit code 70 (internal error)", "killed by SIGKILL"
  friend bool operator==(const Ending&, const Ending&) = default;
};

class ChildProcess {
 public:
  struct Spec {
    std::string name;                  // "worker-1"
    std::vector<std::string> command;  // [0]: the program's path
    std::string log_path;
  };

  // Forks and execs: in a process group of its own, killed when the launcher dies.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(Spec spec);
  // Kills it if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  const std::string& name() const { return spec_.name; }
  pid_t pid() const { return pid_; }
  int stdout_fd() const { return stdout_fd_; }  // -1 once at its end
  int stderr_fd() const { return stderr_fd_; }

  // Reads what is there. Standard error also goes to the log file.
  void ReadStdout(const std::function<void(const std::string&)>& on_line);
  void ReadStderr(const std::function<void(const std::string&)>& on_line);

  void Signal(int signal_number);
  // Looks whether it has ended; does not wait.
  void Poll();
  const std::optional<Ending>& ending() const { return ending_; }
  // The last lines of standard error, oldest first.
  const std::deque<std::string>& last_lines() const { return last_lines_; }
  const std::string& log_path() const { return spec_.log_path; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  explicit ChildProcess(Spec spec) : spec_(std::move(spec)) {}

  Spec spec_;
  pid_t pid_ = -1;
  int stdout_fd_ = -1;
  int stderr_fd_ = -1;
  // A report is a line: a server's has a row for each worker and shard, a result one for each
  // class that was taken for another.
  LineSplitter stdout_lines_{size_t{64} << 20};
  LineSplitter stderr_lines_{size_t{64} << 10};
  std::unique_ptr<std::FILE, CloseFile> log_;
  std::deque<std::string> last_lines_;
  std::optional<Ending> ending_;
};

}  // namespace soapstone::apps
