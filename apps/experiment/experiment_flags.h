// The command line of `soapstone experiment`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace soapstone::apps {

struct ExperimentFlags {
  std::string spec_path;
  std::string out_dir;
  unsigned jobs = 0;  // runs at once; 0: as many as there are cores
  bool check = false;
};

// The command `experiment`; `flags` is filled in when `app` is parsed.
CLI::App* AddExperiment(CLI::App* app, ExperimentFlags* flags);

}  // namespace soapstone::apps
