// RemoteHost: the launcher's end of one ssh connection and of the agent behind it; RemoteProcess: a
// process there, as the launcher sees it.
#pragma once

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/cli/child_process.h"
#include "apps/cli/launched.h"
#include "apps/hosts/agent_message.h"
#include "apps/hosts/unsent_bytes.h"
#include "base/ids.h"

namespace soapstone::apps {

class RemoteProcess;

// Invariants
//  1. Nothing in it waits but its destructor, 4 s at most where processes run, else 1 s; the agent
//     then knows that it is over.
//  2. A host that is lost (ssh has ended, nothing was heard for 20 s, what it sends is not an
//     agent's, a SIGKILL is not heeded for 2 s) stays lost, with why, and all its processes have
//     ended.
//  3. Of input it keeps what one Turn reads, 4 MiB and a line of at most 128 MiB. What is not the
//     agent's is 1 MiB at most over all the time.
// One thread. It outlives its processes.
class RemoteHost {
 public:
  struct Spec {
    std::string host;
    std::vector<std::string> command;  // ssh's, with the agent's
    // A line for people, of what the host says beside the agent, and that it was lost.
    std::function<void(const std::string&)> say;
  };

  static absl::StatusOr<std::unique_ptr<RemoteHost>> Connect(Spec spec);
  ~RemoteHost();
  RemoteHost(const RemoteHost&) = delete;
  RemoteHost& operator=(const RemoteHost&) = delete;

  const std::string& host() const { return spec_.host; }
  void Send(const AgentMessage& message);
  // Tells the agent that all is over.
  void Leave();
  // Reads and writes what can be now; at least once a second.
  void Turn();
  void AppendFds(std::vector<int>* fds) const { ssh_->AppendFds(fds); }
  const std::optional<Checked>& checked() const { return checked_; }
  const std::optional<std::string>& lost() const { return lost_; }
  // How ssh ended, if it has.
  const std::optional<Ending>& ending() const { return ssh_->ending(); }

  // Error: Unavailable, its log cannot be written.
  absl::StatusOr<std::unique_ptr<Launched>> Start(StartProcess start, std::string log_path);

 private:
  friend class RemoteProcess;
  explicit RemoteHost(Spec spec) : spec_(std::move(spec)) {}
  void OnLine(const std::string& line);
  void OnStrange(const std::string& line);
  void OnMessage(const AgentMessage& message);
  void LookForLoss();
  void Lose(const std::string& why);
  void AwaitKilled();
  bool AllEnded() const;

  Spec spec_;
  std::unique_ptr<ChildProcess> ssh_;
  UnsentBytes unsent_;
  std::map<int, RemoteProcess*> processes_;
  int next_id_ = 0;
  size_t strange_bytes_ = 0;  // not the agent's
  Nanos heard_ = 0;
  Nanos spoke_ = 0;
  bool abandoned_ = false;          // a process was not waited for
  std::optional<Nanos> ssh_ended_;  // when that was seen
  std::optional<Nanos> leave_due_;
  std::optional<Nanos> kill_due_;  // some process should be gone by then
  std::optional<Checked> checked_;
  std::optional<std::string> lost_;
};

}  // namespace soapstone::apps
