// What a launcher and the agent on a host say to one another over ssh's standard input and output:
// a JSON object a line. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/statusor.h"

namespace soapstone::apps {

// From the launcher. The first, once: the agent answers with Checked.
struct CheckJob {
  std::string build;  // the launcher's BuildId
  std::string job;    // text of a job file, its paths from the root on
  friend bool operator==(const CheckJob&, const CheckJob&) = default;
};
struct StartProcess {
  int id = 0;          // by which the two talk of it
  uint32_t index = 0;  // of `soapstone node`
  std::string name;    // "worker-3"
  std::string scheduler;
  std::string bind;  // where it listens, if it does; empty: chosen
  std::string cpus;
  std::string key;  // text of its role's key file; empty: a job without keys
  friend bool operator==(const StartProcess&, const StartProcess&) = default;
};
struct SignalProcess {
  int id = 0;
  int number = 0;
  friend bool operator==(const SignalProcess&, const SignalProcess&) = default;
};

// From the agent.
struct Checked {
  std::string build;
  std::string error;  // empty: the job can run here
  friend bool operator==(const Checked&, const Checked&) = default;
};
struct OutputLine {
  int id = 0;
  bool is_error = false;  // of standard error
  std::string text;
  friend bool operator==(const OutputLine&, const OutputLine&) = default;
};
// The last of a process.
struct ProcessEnded {
  int id = 0;
  bool by_signal = false;
  int number = 0;
  friend bool operator==(const ProcessEnded&, const ProcessEnded&) = default;
};

// From either, each second.
struct StillHere {
  friend bool operator==(const StillHere&, const StillHere&) = default;
};

using AgentMessage = std::variant<CheckJob, StartProcess, SignalProcess, Checked, OutputLine,
                                  ProcessEnded, StillHere>;

std::string ToJsonLine(const AgentMessage& message);  // without its newline
// None: not such a message, be it a login's banner. Takes memory of a few times the line's size,
// whatever it is.
std::optional<AgentMessage> FromJsonLine(const std::string& line);

// Of the running program: the SHA-256 of its file, in hex. Error: Internal.
absl::StatusOr<std::string> BuildId();

}  // namespace soapstone::apps
