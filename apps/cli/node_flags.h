// The command lines of the three daemons, and what `soapstone train` shares with them.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "apps/cli/command_line.h"
#include "apps/cli/console.h"
#include "apps/loop/cpu_placement.h"
#include "cluster/job_config.h"

namespace CLI {
class App;
}

namespace soapstone::apps {

// What every process of a job, and `soapstone train`, understands.
struct NodeFlags {
  std::string config_path;
  std::vector<JobOverride> overrides;  // in the order of JobFields()
  std::string rank;                    // as given; empty: not given
  std::string bind;                    // endpoint of a server; empty: chosen
  uint16_t stream_port = 0;            // of a server's streams; 0: chosen
  CpuPlacement placement;              // of a server or a worker
  bool check = false;
  bool print_config = false;
  bool json_progress = false;
  uint32_t progress_every_s = 10;  // where standard output is no terminal
};

// Of this process's standard output, with progress as the flags say.
ConsoleOptions ConsoleOf(const NodeFlags& flags);

// `program` is soapstone-scheduler, soapstone-server or soapstone-worker.
std::variant<NodeFlags, EndNow> ParseNodeFlags(const std::string& program, int argc,
                                               const char* const* argv);

// The command `train`; `flags` is filled in when `app` is parsed.
CLI::App* AddTrain(CLI::App* app, NodeFlags* flags);

}  // namespace soapstone::apps
