// The command line of `soapstone top`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace soapstone::apps {

struct TopFlags {
  std::string where;  // "http://127.0.0.1:9400", or the log folder of `soapstone train`
  bool once = false;
  double every_s = 1;
  std::string save;  // the file that gets the dashboard as it is; empty: none does
};

// The command `top`; `flags` is filled in when `app` is parsed.
CLI::App* AddTop(CLI::App* app, TopFlags* flags);

}  // namespace soapstone::apps
