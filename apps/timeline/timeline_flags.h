// The command line of `soapstone timeline`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace soapstone::apps {

struct TimelineFlags {
  std::string folder;  // that --timeline of `soapstone train` named
  std::string clocks;  // "100:120"; "": all
  std::string out;     // "": timeline.json in the folder
  double wait_s = 60;  // for a running job to come to the last of them
};

// The command `timeline`; `flags` is filled in when `app` is parsed.
CLI::App* AddTimeline(CLI::App* app, TimelineFlags* flags);

}  // namespace soapstone::apps
