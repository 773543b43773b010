// The command line of `soapstone checkpoint`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace soapstone::apps {

struct CheckpointFlags {
  std::string action;  // "ls", "show", "verify", "export"
  std::string where;   // DIR, or DIR/CLOCK
  std::string out;     // of export
  bool json = false;
};

// The command `checkpoint`; `flags` is filled in when `app` is parsed.
CLI::App* AddCheckpoint(CLI::App* app, CheckpointFlags* flags);

}  // namespace soapstone::apps
