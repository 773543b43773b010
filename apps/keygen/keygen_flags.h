// The command line of `soapstone keygen`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace soapstone::apps {

struct KeygenFlags {
  std::string out;
};

// The command `keygen`; `flags` is filled in when `app` is parsed.
CLI::App* AddKeygen(CLI::App* app, KeygenFlags* flags);

}  // namespace soapstone::apps
