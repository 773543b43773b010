// What the launcher sees of a process that it started, here or on another host, and of the hosts
// that start some for it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/config/job.pb.h"

namespace soapstone::apps {

// How a process ended.
struct Ending {
  bool by_signal = false;
  int number = 0;  // the exit code, or the signal
  bool good() const { return !by_signal && number == 0; }
  std::string ToString() const;  // "exit code 70 (internal error)", "killed by SIGKILL"
  friend bool operator==(const Ending&, const Ending&) = default;
};

using OnLine = std::function<void(const std::string&)>;

// Nothing in it waits. When it is destroyed it runs no longer, or ends as soon as its host hears of
// it.
class Launched {
 public:
  virtual ~Launched() = default;
  virtual const std::string& name() const = 0;              // "worker-1"
  virtual std::string label() const { return name(); }      // for people: "host:worker-1"
  virtual void AppendFds(std::vector<int>* fds) const = 0;  // to wait at for input
  // Reads what is there. Standard error also goes to the log file.
  virtual void ReadStdout(const OnLine& on_line) = 0;
  virtual void ReadStderr(const OnLine& on_line) = 0;
  virtual void Signal(int signal_number) = 0;
  // With a value that the process reads (base/stop_signals.h), where the way there carries one.
  virtual void SignalWith(int signal_number, int /*value*/) { Signal(signal_number); }
  // Processor time of a process of this machine, in the kernel's ticks; of others 0.
  virtual uint64_t CpuTicks() const { return 0; }
  // By a signal (SIGSTOP), until SIGCONT.
  virtual bool IsStopped() const { return false; }
  virtual void Poll() = 0;  // looks whether it has ended
  virtual const std::optional<Ending>& ending() const = 0;
  // The last lines of standard error, oldest first.
  virtual const std::deque<std::string>& last_lines() const = 0;
  virtual const std::string& log_path() const = 0;
};

// The hosts of a job whose servers and workers run elsewhere. Called in the order of its functions,
// the last four again and again.
class Hosts {
 public:
  struct Process {
    std::string role;  // "server", "worker"
    int rank = 0;
    std::string scheduler;  // the endpoint that it has here
    std::string log_path;   // on this machine
  };

  virtual ~Hosts() = default;
  // Places the job's processes, and says in `config` where the scheduler listens if it does not.
  // Error: InvalidArgument with one line.
  virtual absl::Status Settle(wire::JobConfig* config) = 0;
  // Connects to all hosts at once and has them check the job. Every failure is said on standard
  // error. Returns 0, kExitConfig if trying again cannot help one of them, else kExitPeerLost.
  virtual int Open(const wire::JobConfig& config) = 0;
  // Error: Unavailable, its log cannot be written.
  virtual absl::StatusOr<std::unique_ptr<Launched>> Start(const Process& process) = 0;
  virtual void AppendFds(std::vector<int>* fds) const = 0;  // to wait at for input
  // Reads and writes what can be now; at least once a second, from Open on.
  virtual void Turn() = 0;
  // A file that the job writes: "host:path".
  virtual std::string ModelAt(const std::string& path) const = 0;
};

}  // namespace soapstone::apps
