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
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/cli/launched.h"

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

class ChildProcess final : public Launched {
 public:
  struct Spec {
    std::string name;                  // "worker-1"
    std::vector<std::string> command;  // [0]: the program's path
    std::string log_path;
    bool fed = false;            // by Feed; else its standard input is empty
    std::vector<int> inherited;  // descriptors that it has too, by the same numbers
    // A report is a line: a server's has a row for each worker and shard, a result one for each
    // class that was taken for another.
    size_t stdout_line_bytes_max = size_t{64} << 20;
  };

  // Forks and execs: in a process group of its own, killed when the launcher dies.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(Spec spec);
  // Kills it if it still runs.
  ~ChildProcess() override;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  const std::string& name() const override { return spec_.name; }
  pid_t pid() const { return pid_; }
  int stdout_fd() const { return stdout_fd_; }  // -1 once at its end
  int stderr_fd() const { return stderr_fd_; }

  void AppendFds(std::vector<int>* fds) const override;
  // Reads what is there, 4 MiB at most.
  void ReadStdout(const OnLine& on_line) override;
  void ReadStderr(const OnLine& on_line) override;

  // Writes what its standard input takes now. How many bytes that was; none: it takes no more,
  // ever.
  std::optional<size_t> Feed(std::string_view bytes);
  void CloseStdin();

  void Signal(int signal_number) override;
  void SignalWith(int signal_number, int value) override;
  uint64_t CpuTicks() const override;
  bool IsStopped() const override;
  void Poll() override;
  const std::optional<Ending>& ending() const override { return ending_; }
  const std::deque<std::string>& last_lines() const override { return last_lines_; }
  const std::string& log_path() const override { return spec_.log_path; }

 private:
  std::vector<std::string> StatFields() const;

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  explicit ChildProcess(Spec spec)
      : spec_(std::move(spec)), stdout_lines_(spec_.stdout_line_bytes_max) {}

  Spec spec_;
  pid_t pid_ = -1;
  int stdin_fd_ = -1;
  int stdout_fd_ = -1;
  int stderr_fd_ = -1;
  LineSplitter stdout_lines_;
  LineSplitter stderr_lines_{size_t{64} << 10};
  std::unique_ptr<std::FILE, CloseFile> log_;
  std::deque<std::string> last_lines_;
  std::optional<Ending> ending_;
};

}  // namespace soapstone::apps
