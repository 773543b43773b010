// The command line of `soapstone data`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace soapstone::apps {

struct DataFlags {
  std::string name;  // empty: all
  std::string from;  // what was fetched: a file or a folder; empty: only say where it is
  std::string to;    // empty: data/NAME
};

// The command `data`; `flags` is filled in when `app` is parsed.
CLI::App* AddData(CLI::App* app, DataFlags* flags);

}  // namespace soapstone::apps
