// The command line of `soapstone models`.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace soapstone::apps {

struct ModelsFlags {
  std::string model;  // empty: all
  int64_t batch = 8;
  std::string optimizer;  // empty: its state is not counted
  bool json = false;
  bool dot = false;
};

// The command `models`; `flags` is filled in when `app` is parsed.
CLI::App* AddModels(CLI::App* app, ModelsFlags* flags);

}  // namespace soapstone::apps
