// The command line of `soapstone plan`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace soapstone::apps {

struct PlanFlags {
  std::string model;
  std::string config_path;  // a job: its model, batch and workers
  std::string machine_path;
  uint32_t devices = 0;          // 0: all
  std::vector<double> slowness;  // of each device; empty: as the machine says
  int64_t batch = 0;             // 0: 64 a device
  int64_t time_chunk = 0;
  std::optional<int64_t> micro_batches;  // 0: to be chosen
  std::string search = "mcmc";
  double budget_s = 10;
  uint64_t proposals = 0;  // of each chain; 0: as many as the budget allows
  uint64_t seed = 1;
  double jitter = 0;
  double moved_gb = 0;     // of a step, at most; 0: any number
  uint32_t staleness = 0;  // at most
  std::string costs_path;
  std::string output_path, trace_path, svg_path, dot_path;
  bool json = false;
  std::string explain;          // an operator
  std::string compare;          // two files
  std::string strategy_path;    // priced without a search
  std::string measure_machine;  // a file
  double step_ms = 20;          // between meetings of the processes that are measured
  std::string synchronization;  // of baselines; empty: whichever is best
  bool for_workers = false;     // only what workers can run
  bool all_devices = false;     // and of that what leaves no device idle
  std::string optimizer;        // empty: the job's, or one without state
};

// The command `plan`; `flags` is filled in when `app` is parsed.
CLI::App* AddPlan(CLI::App* app, PlanFlags* flags);

// Which flags --measure_machine and --compare do without. False: the line of the error was printed.
bool PlanIsComplete(const PlanFlags& flags);

}  // namespace soapstone::apps
