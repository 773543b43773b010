// The command line of `soapstone profile`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace soapstone::apps {

struct ProfileFlags {
  std::string model;
  std::string config_path;  // of a job, instead
  int64_t batch = 0;        // 0: the job's, or 8
  int threads = 1;
  std::string device = "cpu";  // as in BackendChoice (compute_backend.h), and the next two
  std::string precision = "float32";
  std::string convolutions = "guessed";
  double seconds = 3;  // of steps, at each batch size
  size_t top = 25;     // operators shown
  bool recompute = false;
  bool json = false;
  std::string trace_path;
  std::string costs_path;
  size_t replicas = 0;        // not 0: so many at once, instead of operators; of them:
  uint64_t workspace_mb = 0;  // of all convolutions that run at once; 0: as each likes
};

// The command `profile`; `flags` is filled in when `app` is parsed.
CLI::App* AddProfile(CLI::App* app, ProfileFlags* flags);
// What flags cannot require of each other; says what is missing.
bool ProfileIsComplete(const ProfileFlags& flags);

}  // namespace soapstone::apps
