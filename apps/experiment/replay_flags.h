// The command line of `soapstone replay`.
#pragma once

#include <string>
#include <vector>

#include "cluster/job_config.h"

namespace CLI {
class App;
}

namespace soapstone::apps {

struct ReplayFlags {
  std::string dir;
  std::vector<JobOverride> overrides;  // where the data lie
};

// The command `replay`; `flags` is filled in when `app` is parsed.
CLI::App* AddReplay(CLI::App* app, ReplayFlags* flags);

}  // namespace soapstone::apps
