// The command lines of the three daemons, of `soapstone node`, which becomes one of them, and what
// `soapstone train` shares with them. Flags may come from the environment (environment_flags.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/cli/command_line.h"
#include "apps/cli/console.h"
#include "apps/cli/rank_choice.h"
#include "apps/loop/cpu_placement.h"
#include "cluster/job_config.h"

namespace CLI {
class App;
}

namespace soapstone::apps {

inline constexpr double kPlanBudgetS = 10;

// What every process of a job, and `soapstone train`, understands.
struct NodeFlags {
  std::string config_path;
  std::string key;                      // a key file, or a folder of them; empty: without keys
  std::vector<JobOverride> overrides;   // in the order of JobFields()
  std::string rank;                     // as given; empty: not given
  std::string index;                    // of `soapstone node`, likewise: over all roles
  std::optional<RankChoice> place;      // what that came to; rank -1: the scheduler hands one out
  std::string bind;                     // endpoint of a server; empty: chosen
  uint16_t stream_port = 0;             // of a server's streams; 0: chosen
  CpuPlacement placement;               // of a server or a worker
  std::string hosts_path;               // of `soapstone train`; empty: all runs on this machine
  std::string ssh;                      // the command that reaches a host
  std::string machine_path;             // of --strategy=auto; empty: this one is measured
  std::optional<double> plan_budget_s;  // of the same; none: kPlanBudgetS
  uint32_t restarts = 0;                // of a job that has lost a process
  bool replan = false;                  // the strategy, where workers' speeds change
  bool check = false;
  bool print_config = false;
  bool json_progress = false;
  std::string http;                    // where its pages are served; empty: nowhere
  std::string http_name;               // a host name that they may be asked for by
  bool json_log = false;               // on standard error
  uint32_t progress_every_s = 10;      // where standard output is no terminal
  std::vector<std::string> variables;  // "SOAPSTONE_WORKERS=4": flags that the environment has set
};

// Of this process's standard output, with progress as the flags say.
ConsoleOptions ConsoleOf(const NodeFlags& flags);

// `program` is soapstone-scheduler, soapstone-server or soapstone-worker.
std::variant<NodeFlags, EndNow> ParseNodeFlags(const std::string& program, int argc,
                                               const char* const* argv);

// The commands `train` and `node`; `flags` is filled in when `app` is parsed.
CLI::App* AddTrain(CLI::App* app, NodeFlags* flags);
CLI::App* AddNode(CLI::App* app, NodeFlags* flags);

// Unsets the variables that are daemons' flags: what starts them has said all in a job file.
void ForgetNodeVariables();

}  // namespace soapstone::apps
