// The command line of `soapstone checkpoint`.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace soapstone::apps {

struct CheckpointFlags {
  std::string action;  // "ls", "show", "verify", "export", "diff", "prune"
  std::string where;   // DIR, DIR/CLOCK or DIR/best
  std::string other;   // of export the file; of diff as `where`
  int64_t keep = 2;    // of prune
  bool json = false;
};

// The command `checkpoint`; `flags` is filled in when `app` is parsed.
CLI::App* AddCheckpoint(CLI::App* app, CheckpointFlags* flags);

}  // namespace soapstone::apps
