// The command lines of all four programs. CLI11, and its exceptions, stay in flags.cc. Reads no
// file and no environment: a command line in, values out.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "apps/loop/cpu_placement.h"
#include "cluster/job_config.h"

namespace soapstone::apps {

inline constexpr char kSoapstone[] = "soapstone";  // the command, which its errors begin with

// What every process of a job, and `soapstone train`, understands.
struct NodeFlags {
  std::string config_path;
  std::vector<JobOverride> overrides;  // in the order of JobFields()
  std::string rank;                    // as given; empty: not given
  std::string bind;                    // endpoint of a server; empty: chosen
  uint16_t stream_port = 0;            // of a server's streams; 0: chosen
  CpuPlacement placement;              // of a server or a worker
  bool check = false;
  bool print_config = false;
  bool json_progress = false;
};

struct SimulateFlags {
  std::string job_path;                // train this job; empty: timing alone
  std::vector<JobOverride> overrides;  // of the job
  uint64_t curve_every = 0;            // samples; 0: some sixty points a run
  std::string curve_path;
  double target = 0.95;  // test accuracy whose time is shown
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

struct ExperimentFlags {
  std::string spec_path;
  std::string out_dir;
  unsigned jobs = 0;  // runs at once; 0: as many as there are cores
  bool check = false;
};

struct ReplayFlags {
  std::string dir;
  std::vector<JobOverride> overrides;  // where the data lie
};

struct ModelsFlags {
  std::string model;  // empty: all
  int64_t batch = 8;
  bool json = false;
  bool dot = false;
};

struct ProfileFlags {
  std::string model;
  int64_t batch = 8;
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

struct PlanFlags {
  std::string model;
  std::string machine_path;
  uint32_t devices = 0;  // 0: all
  int64_t batch = 0;     // 0: 64 a device
  int64_t time_chunk = 0;
  int64_t micro_batches = 1;  // 0: to be chosen
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
  std::string measure_machine;  // a file
  double step_ms = 20;          // between meetings of the processes that are measured
  std::string synchronization;  // of baselines; empty: whichever is best
};

struct TrainCommand {
  NodeFlags flags;
};
struct PoliciesCommand {};
using Command = std::variant<TrainCommand, SimulateFlags, ExperimentFlags, ReplayFlags, ModelsFlags,
                             ProfileFlags, PlanFlags, PoliciesCommand>;

// The process shall end now with this code; help or the one line of the error was printed.
struct EndNow {
  int code = 0;
};

// `program` is soapstone-scheduler, soapstone-server or soapstone-worker.
std::variant<NodeFlags, EndNow> ParseNodeFlags(const std::string& program, int argc,
                                               const char* const* argv);
// Of `soapstone`.
std::variant<Command, EndNow> ParseCommand(int argc, const char* const* argv);

}  // namespace soapstone::apps
