// The command line of `soapstone simulate`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/job_config.h"

namespace CLI {
class App;
}

namespace soapstone::apps {

struct SimulateFlags {
  std::string job_path;                // train this job; empty: timing alone
  std::vector<JobOverride> overrides;  // of the job
  uint64_t curve_every = 0;            // samples; 0: some sixty points a run
  std::string curve_path;
  std::string machine_path;  // of a job with a strategy: how long things take; empty: as below
  std::string costs_path;    // with it; empty: the roofline
  double target = 0.95;      // test accuracy whose time is shown
  double iteration_us = 1000;
  uint32_t workers = 32;
  uint32_t shards = 1;
  std::string policy = "ssp:s=4";
  std::string stragglers = "none";
  bool rebalance = false;
  uint32_t micro_batches = 0;
  int64_t clocks = 0;
  double duration = 0;
  double latency_us = 0;
  double bandwidth_gbps = 0;
  double heartbeat_timeout_s = 5;
  uint64_t elements = 1024;
  uint64_t seed = 1;
  uint32_t seeds = 0;  // 0: as many as are quickly run
  std::string trace_path;
};

// The command `simulate`; `flags` is filled in when `app` is parsed.
CLI::App* AddSimulate(CLI::App* app, SimulateFlags* flags);

}  // namespace soapstone::apps
